"""Shardings and groups of devices as HLO writes them."""

import pytest

from shard_dialect.errors import ShardError
from shard_dialect.proof.tiles import Tiles, groups_along, listed_shardings


@pytest.mark.parametrize(
    ("text", "places"),
    [
        ("{devices=[2,2]<=[4]}", [[0, 0], [0, 1], [1, 0], [1, 1]]),
        ("{devices=[2,2]0,2,1,3}", [[0, 0], [1, 0], [0, 1], [1, 1]]),
        ("{devices=[4,1]<=[2,2]T(1,0)}", [[0, 0], [2, 0], [1, 0], [3, 0]]),
        (
            "{devices=[2,1,2]<=[4] last_tile_dim_replicate}",
            [[0, 0], [0, 0], [1, 0], [1, 0]],
        ),
    ],
)
def test_each_device_has_its_tile(text: str, places: "list[list[int]]") -> None:
    tiles = Tiles.read(text, 2)
    assert tiles is not None
    assert tiles.places.tolist() == places


def test_what_is_replicated_has_no_tiles() -> None:
    assert Tiles.read("{replicated}", 2) is None


@pytest.mark.parametrize("text", ["{devices=[2][2]}", "{devices=[2]<=0,1}", "{manual}"])
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(ShardError, match="is not known to the prover"):
        Tiles.read(text, 1)


def test_each_result_has_its_sharding() -> None:
    text = "{{replicated}, {devices=[2,1]<=[2]}}"
    assert listed_shardings(text, 2) == ["{replicated}", "{devices=[2,1]<=[2]}"]
    assert listed_shardings("{replicated}", 2) == ["{replicated}"] * 2


@pytest.mark.parametrize(
    ("devices", "shape", "parts", "groups"),
    [
        (range(4), (2, 2), [(1, 1, 2)], [[0, 1], [2, 3]]),
        (range(4), (2, 2), [(0, 1, 2)], [[0, 2], [1, 3]]),
        ([0, 2, 1, 3], (4, 1), [(0, 1, 4)], [[0, 2, 1, 3]]),
        (range(8), (8,), [(0, 2, 2)], [[0, 2], [1, 3], [4, 6], [5, 7]]),
        (range(8), (8,), [(0, 4, 2), (0, 1, 2)], [[0, 4, 1, 5], [2, 6, 3, 7]]),
    ],
)
def test_groups_differ_along_their_axes_only(
    devices: "list[int]",
    shape: "tuple[int, ...]",
    parts: "list[tuple[int, int, int]]",
    groups: "list[list[int]]",
) -> None:
    assert groups_along(list(devices), shape, parts) == groups
