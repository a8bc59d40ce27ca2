"""Every plan between two grids, run on arrays, gives what its target says, and none is cheaper."""

import re
from functools import cache
from itertools import product

import numpy as np
import pytest

from shard_dialect.collectives import ReshardError
from shard_dialect.model import Grid, Sharding
from shard_dialect.model.grid_refinement import Refinement
from shard_dialect.planner import CrossGridPlan, plan_across_grids
from tests.model.exhaustive import costs_between, shardings
from tests.model.interpreter import DTYPE, KINDS, Array, Shape, holds, lay, run, spread, whole_array

SQUARE = Grid("square", (2, 2))
TURNED = Grid("turned", (2, 2), device_ids=(0, 2, 1, 3))
LINE = Grid("line", (4,))
GRIDS = (SQUARE, TURNED, LINE)
PAIRS = list(product(GRIDS, repeat=2))
SHAPES: tuple[Shape, ...] = ((24,), (6,), (7,), (24, 48), (6, 24), (5, 7))
COUNTS = {1: (10 + 10 + 3) ** 2, 2: (18 + 18 + 4) ** 2}
"""How many pairs of shardings there are for each rank."""

EVERY_PAIR = pytest.mark.parametrize("grids", PAIRS, ids=lambda pair: f"{pair[0]}-{pair[1]}")
EVERY_SHAPE = pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: "x".join(map(str, shape)))


def fine(sharding: Sharding, grid: Grid) -> tuple[Sharding, Grid]:
    found = Refinement.finest(grid)
    return (sharding, grid) if found is None else (found.refined(sharding), found.fine)


@cache
def start(source: Sharding, grid: Grid, shape: Shape) -> list[Array]:
    """The shards of a tensor, made once for all targets."""
    return spread(whole_array(shape), source, grid)


def ends_right(
    found: CrossGridPlan, source: Sharding, target: Sharding, whole: Array, same_devices: bool
) -> bool:
    """Whether the steps, done on arrays, end at `target`, for the bytes that they say."""
    first, second, shape = found.before.grid, found.after.grid, whole.shape
    shards = start(source, first, shape)
    held, moved = run(found.before.steps, shards, source, shape, first)
    places = found.transfer.destinations
    assert sorted(places) == list(range(first.size))
    if found.transfer.kind == "same":
        assert same_devices
        assert places == tuple(range(first.size))
    else:
        moved += max(shard.nbytes for shard in held)
    arrived = [held[places.index(rank)] for rank in range(second.size)]
    held, more = run(found.after.steps, arrived, found.transfer.target, shape, second)
    return holds(held, whole, target, second) and found.bytes_moved == moved + more


@pytest.mark.parametrize("rank", COUNTS)
def test_the_pairs_are_all_there(rank: int) -> None:
    count = sum(len(shardings(a, rank)) * len(shardings(b, rank)) for a, b in PAIRS)
    assert count == COUNTS[rank]


@pytest.mark.parametrize("same_devices", [True, False], ids=["same", "disjoint"])
@EVERY_SHAPE
@EVERY_PAIR
def test_a_plan_is_right_and_nothing_is_cheaper(
    grids: tuple[Grid, Grid], shape: Shape, same_devices: bool
) -> None:
    whole = whole_array(shape)
    for source in shardings(grids[0], len(shape)):
        for target in shardings(grids[1], len(shape)):
            found = plan_across_grids(source, target, shape, DTYPE.itemsize, *grids, same_devices)
            begin, first = fine(source, grids[0])
            end, second = fine(target, grids[1])
            assert (found.before.grid, found.after.grid) == (first, second)
            assert ends_right(found, begin, end, whole, same_devices), f"{source}: {found}"
            assert found.exact
            least = costs_between(begin, end, shape, (first, second), same_devices)
            assert found.bytes_moved == int(least), f"{source} -> {target}: {found}"


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_partial_value_is_right(kind: str) -> None:
    whole = whole_array((6, 24))
    for before, after in product(shardings(SQUARE, 2), shardings(TURNED, 2)):
        source = before.with_partial(before.partial, kind)
        for target in (after, after.with_partial(after.partial, kind)):
            found = plan_across_grids(source, target, (6, 24), DTYPE.itemsize, SQUARE, TURNED)
            assert ends_right(found, source, target, whole, True), f"{source} -> {target}: {found}"


@pytest.mark.parametrize("same_devices", [True, False], ids=["same", "disjoint"])
def test_beyond_the_search_a_plan_is_right(same_devices: bool) -> None:
    whole = whole_array((5, 24))
    for source, target in product(shardings(SQUARE, 2), shardings(LINE, 2)):
        found = plan_across_grids(source, target, (5, 24), 4, SQUARE, LINE, same_devices, limit=0)
        assert not found.exact
        assert ends_right(found, source, target, whole, same_devices), f"{found}"


@pytest.mark.parametrize(
    ("source", "target", "grids", "same_devices", "text", "moved"),
    [
        (lay((0, 1), ()), lay((0,), ()), (SQUARE, LINE), True, "the same as", 0),
        (lay((0,), ()), lay((1,), ()), (SQUARE, TURNED), True, "the same as [[1], []]", 0),
        (
            lay((0, 1), ()),
            lay((0, 1), ()),
            (SQUARE, TURNED),
            True,
            "collective_permute to [[0, 1], []] on @turned",
            64,
        ),
        (lay((0,), ()), lay((0,), ()), (SQUARE, LINE), False, "send_recv to", 64),
    ],
    ids=["another shape", "another order", "moves", "other devices"],
)
def test_a_plan_of_an_8x8_tensor_of_4_bytes(
    source: Sharding,
    target: Sharding,
    grids: tuple[Grid, Grid],
    same_devices: bool,
    text: str,
    moved: int,
) -> None:
    source = Sharding(grids[0].name, source.split_axes)
    target = Sharding(grids[1].name, target.split_axes)
    found = plan_across_grids(source, target, (8, 8), 4, *grids, same_devices)
    assert text in str(found)
    assert found.bytes_moved == moved


def test_grids_of_different_sizes_are_refused() -> None:
    message = "cannot reshard from @line(4) to @two(2): expected as many devices, found 4 and 2"
    with pytest.raises(ReshardError, match=re.escape(message)):
        plan_across_grids(
            lay((0,), grid="line"), lay((0,), grid="two"), (8,), 4, LINE, Grid("two", (2,))
        )


def test_halos_are_refused() -> None:
    halo = Sharding("square", ((0,),), halos=((1, 1),))
    with pytest.raises(ReshardError, match="shards with halos or offsets are not resharded yet"):
        plan_across_grids(halo, lay((0,), grid="line"), (8,), 4, SQUARE, LINE)


def test_a_device_keeps_what_it_has() -> None:
    found = plan_across_grids(
        lay((0, 1), grid="square"), lay((0, 1), grid="turned"), (8,), 4, SQUARE, TURNED
    )
    assert np.array_equal(found.transfer.destinations, (0, 2, 1, 3))
