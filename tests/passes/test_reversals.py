"""Reversals along split dimensions are windows: what devices send is priced, and moved past."""

import random

import pytest

import shard_dialect as sd


def reversal(size: int, grid: str, source: str, target: str) -> str:
    """The reversal of a matrix of 12 columns, from one sharding to another."""
    tensor = f"tensor<{size}x12xf32>"
    return f"""
    shard.grid @g(shape = {grid})
    func.func @main(%x: {tensor} {{mesh.sharding = #mesh.shard<@g, {source}>}})
        -> ({tensor} {{mesh.sharding = #mesh.shard<@g, {target}>}}) {{
      %r = stablehlo.reverse %x, dims = [0] : {tensor}
      return %r : {tensor}
    }}"""


@pytest.mark.parametrize("devices", [2, 3, 4, 8])
@pytest.mark.parametrize("size", [8, 9, 24, 29])
def test_a_device_gets_no_more_than_its_shard(devices: int, size: int) -> None:
    """Also of shards that are not equal; the others it neither holds nor sends."""
    compiled = sd.compile(sd.parse(reversal(size, str(devices), "[[0]]", "[[0]]")))
    shard = -(-size // devices) * 12 * 4
    # Uneven shards are sent in two pieces at most, of which each is as large as the largest.
    assert compiled.report.bytes_moved <= (2 if size % devices else 1) * shard
    assert compiled.check().passed


@pytest.mark.parametrize(
    ("source", "target", "moved"),
    [
        ("[[0, 1]]", "[[]]", 3 / 4),  # a gather of all
        ("[[0], [1]]", "[[], [1]]", 1 / 4),  # a gather of half the columns
        ("[[], [0, 1]]", "[[]]", 3 / 4),
        ("[[1, 0]]", "[[0], [1]]", 3 / 16 + 1 / 8),  # two exchanges, all rows in between
    ],
)
def test_it_sends_nothing_where_its_dimension_is_whole(
    source: str, target: str, moved: float
) -> None:
    """Before a gather, or after it, or between the steps of a reshard."""
    compiled = sd.compile(sd.parse(reversal(16, "2x2", source, target)))
    assert compiled.report.bytes_moved <= moved * 16 * 12 * 4
    assert compiled.check().passed


def test_draws() -> None:
    """Any sizes and shardings."""
    rng = random.Random(5)
    options = ["[[]]", "[[0]]", "[[1]]", "[[0, 1]]", "[[1, 0]]", "[[0], [1]]", "[[], [0, 1]]"]
    for _ in range(12):
        source, target = rng.choice(options), rng.choice(options)
        text = reversal(rng.randint(1, 20), rng.choice(["2x2", "2x3", "4x2"]), source, target)
        assert sd.compile(sd.parse(text)).check().passed, text
