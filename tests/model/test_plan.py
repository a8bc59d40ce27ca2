"""Every plan, run on arrays by an interpreter of its own, gives what its target says."""

import re
from collections.abc import Iterator, Sequence
from fractions import Fraction
from functools import cache
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shard_dialect.collectives import (
    AllGather,
    AllToAll,
    Exchange,
    ReduceScatter,
    ReshardError,
    Step,
)
from shard_dialect.model import Grid, Reduction, Sharding, ShardingError
from shard_dialect.model.grid_refinement import Refinement
from shard_dialect.planner import Plan, plan
from tests.model.exhaustive import costs, shardings
from tests.model.interpreter import (
    DTYPE,
    KINDS,
    Array,
    Axes,
    Shape,
    bytes_of,
    holds,
    lay,
    run,
    spread,
    whole_array,
)

GRIDS = ((2,), (4,), (2, 2), (2, 3), (4, 2), (2, 2, 2))
SHAPES: tuple[Shape, ...] = ((24,), (6,), (7,), (24, 48), (6, 24), (5, 7))
"""Even on all grids, even on some axes, even on none."""
COUNTS = {
    ((2,), 1): 9,
    ((4,), 1): 9,
    ((2, 2), 1): 100,
    ((2, 3), 1): 100,
    ((4, 2), 1): 100,
    ((2, 2, 2), 1): 1444,
    ((2,), 2): 16,
    ((4,), 2): 16,
    ((2, 2), 2): 324,
    ((2, 3), 2): 324,
    ((4, 2), 2): 324,
    ((2, 2, 2), 2): 8464,
}
"""How many pairs there are for each grid and tensor rank, so that none is lost unseen.

With `a` axes and `r` dimensions the square of

    sum over k of C(a, k) * k! * C(k + r - 1, k) * 2 ** (a - k)
"""


def pairs(grid: Grid, rank: int) -> Iterator[tuple[Sharding, Sharding]]:
    return product(shardings(grid, rank), repeat=2)


def refined(sharding: Sharding, found: Plan) -> Sharding:
    """As the grid of the plan names its axes."""
    if sharding.grid == found.grid.name:
        return sharding
    fine = Refinement.finest(GRID_OF[sharding.grid])
    assert fine is not None
    assert fine.fine == found.grid
    return fine.refined(sharding)


GRID_OF = {"x".join(map(str, sizes)): Grid("x".join(map(str, sizes)), sizes) for sizes in GRIDS}

EVERY_GRID = pytest.mark.parametrize("grid", GRID_OF.values(), ids=GRID_OF)
SMALL_GRIDS = pytest.mark.parametrize(
    "grid",
    [
        pytest.param(grid, marks=[pytest.mark.exhaustive] if grid.rank > 2 else [])
        for grid in GRID_OF.values()
    ],
    ids=GRID_OF,
)
"""All of them where it is asked for: with three axes there are many shardings to go between."""
EVERY_SHAPE = pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: "x".join(map(str, shape)))


@cache
def start(source: Sharding, grid: Grid, shape: Shape) -> tuple[Array, list[Array]]:
    """A tensor and its shards under `source`, made once for all targets."""
    whole = whole_array(shape)
    return whole, spread(whole, source, grid)


@pytest.mark.parametrize("rank", [1, 2])
@EVERY_GRID
def test_the_pairs_are_all_there(grid: Grid, rank: int) -> None:
    assert len(list(pairs(grid, rank))) == COUNTS[grid.shape, rank]


@EVERY_SHAPE
@SMALL_GRIDS
def test_a_plan_is_right_and_nothing_is_cheaper(grid: Grid, shape: Shape) -> None:
    """Run on arrays it gives the shards of its target; no sequence of steps moves less."""
    for source, target in pairs(grid, len(shape)):
        found = plan(source, target, shape, DTYPE.itemsize, grid)
        begin, end = refined(source, found), refined(target, found)
        whole, shards = start(source, grid, shape)
        held, moved = run(found.steps, shards, begin, shape, found.grid)
        assert holds(held, whole, end, found.grid), f"{source} -> {target}: {found}"
        assert found.exact
        assert found.bytes_moved == moved
        least = cheapest(source, target, shape, grid)
        taken = moved_by(found.steps, begin, shape, found.grid)
        # An exchange moves no more than collectives, which may take several.
        is_exchange = any(isinstance(step, Exchange) for step in found.steps)
        assert taken <= least if is_exchange else taken == least, f"{source} -> {target}: {found}"


def cheapest(source: Sharding, target: Sharding, shape: Shape, grid: Grid) -> Fraction:
    """The bytes of the cheapest steps, of which those on sub-axes are some."""
    fine = Refinement.finest(grid)
    if fine is None:
        return costs(source, target, shape, grid)[0]
    return costs(fine.refined(source), fine.refined(target), shape, fine.fine)[0]


def moved_by(steps: Sequence[Step], now: Sharding, shape: Shape, grid: Grid) -> Fraction:
    moved = Fraction(0)
    for step in steps:
        moved += bytes_of(step, now, shape, grid)
        now = step.after(now)
    return moved


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", [(6,), (24, 48)], ids=str)
@pytest.mark.parametrize("grid", [GRID_OF["4"], GRID_OF["2x3"]], ids=["4", "2x3"])
def test_every_kind_of_partial_value_is_right(grid: Grid, shape: Shape, kind: Reduction) -> None:
    for before, after in pairs(grid, len(shape)):
        source = before.with_partial(before.partial, kind)
        for target in (after, after.with_partial(after.partial, kind)):
            found = plan(source, target, shape, DTYPE.itemsize, grid)
            begin, end = refined(source, found), refined(target, found)
            whole, shards = start(source, grid, shape)
            held, _ = run(found.steps, shards, begin, shape, found.grid)
            assert holds(held, whole, end, found.grid), f"{source} -> {target}: {found}"


@EVERY_SHAPE
def test_axes_of_one_device_cost_nothing(shape: Shape) -> None:
    grid, small = Grid("g", (2, 1, 2)), Grid("g", (2, 2))

    def cut(sharding: Sharding) -> Sharding:
        """The same on the grid without its second axis."""
        lists = [[axis // 2 for axis in axes if axis != 1] for axes in sharding.split_axes]
        partial = tuple(axis // 2 for axis in sharding.partial if axis != 1)
        return Sharding("g", tuple(map(tuple, lists)), partial)

    for number, (source, target) in enumerate(pairs(grid, len(shape))):
        if len(shape) == 2 and number % 61:  # of 8464
            continue
        found = plan(source, target, shape, DTYPE.itemsize, grid)
        whole, shards = start(source, grid, shape)
        held, moved = run(found.steps, shards, source, shape, grid)
        assert holds(held, whole, target, grid), f"{source} -> {target}: {found}"
        least = plan(cut(source), cut(target), shape, DTYPE.itemsize, small).bytes_moved
        assert found.bytes_moved == moved == least, f"{source} -> {target}: {found}"


@EVERY_GRID
def test_a_replicated_source_reaches_everything_for_free(grid: Grid) -> None:
    source = Sharding.replicated(grid.name, 2)
    for target in shardings(grid, 2):
        for kind in KINDS:
            wanted = target.with_partial(target.partial, kind)
            assert plan(source, wanted, (24, 48), 4, grid).bytes_moved == 0


@st.composite
def reshards(draw: st.DrawFn) -> tuple[Grid, Sharding, Sharding, Shape]:
    """Grids with axes of size 1 too, tensors to rank 3 that divide or do not."""
    grid = Grid("g", tuple(draw(st.lists(st.integers(1, 6), min_size=1, max_size=3))))
    rank = draw(st.integers(0, 3))

    def sharding() -> Sharding:
        split: list[Axes] = [()] * rank
        partial: Axes = ()
        for axis in draw(st.permutations(range(grid.rank))):
            dim = draw(st.integers(-1, rank))
            if 0 <= dim < rank:
                split[dim] += (axis,)
            elif dim == rank:
                partial += (axis,)
        return Sharding("g", tuple(split), partial, draw(st.sampled_from(KINDS)))

    shape = draw(st.tuples(*[st.sampled_from([1, 4, 6, 7, 24])] * rank))
    return grid, sharding(), sharding(), shape


@settings(max_examples=300, deadline=None, derandomize=True)
@given(reshards())
def test_a_plan_is_right(case: tuple[Grid, Sharding, Sharding, Shape]) -> None:
    grid, source, target, shape = case
    whole = whole_array(shape)
    found = plan(source, target, shape, DTYPE.itemsize, grid)
    fine = Refinement.finest(grid)
    begin, end = source, target
    if found.grid != grid:
        assert fine is not None
        begin, end = fine.refined(source), fine.refined(target)
    shards = spread(whole, begin, found.grid)
    held, moved = run(found.steps, shards, begin, shape, found.grid)
    assert holds(held, whole, end, found.grid)
    assert found.bytes_moved == moved


@settings(max_examples=100, deadline=None, derandomize=True)
@given(reshards())
def test_beyond_the_search_a_plan_is_right(case: tuple[Grid, Sharding, Sharding, Shape]) -> None:
    """What is left where a grid has too many axes."""
    grid, source, target, shape = case
    whole = whole_array(shape)
    found = plan(source, target, shape, DTYPE.itemsize, grid, limit=0)
    held, _ = run(found.steps, spread(whole, source, grid), source, shape, grid)
    assert holds(held, whole, target, grid)


@pytest.mark.parametrize("kind", KINDS)
def test_the_random_shards_of_a_source_combine_to_the_tensor(kind: Reduction) -> None:
    grid = Grid("g", (2, 3, 2))
    sharding = Sharding("g", ((0,), ()), (1, 2), kind)
    whole = whole_array((4, 6))
    assert holds(spread(whole, sharding, grid), whole, sharding, grid)


CUBE = Grid("g", (2, 2, 2))


@pytest.mark.parametrize(
    ("source", "target", "text", "moved"),
    [
        (lay((), ()), lay((), ()), "nothing", 0),
        (lay((), ()), lay((0,), ()), "all_slice dim 0 axes [0]", 0),
        (lay((0,), ()), lay((0, 1), ()), "all_slice dim 0 axes [1]", 0),
        (lay((0,), ()), lay((), ()), "all_gather dim 0 axes [0]", 128),
        (lay((0, 1), ()), lay((0,), ()), "all_gather dim 0 axes [1]", 64),
        (lay((), (0, 1, 2)), lay((), (0,)), "all_gather dim 1 axes [1, 2]", 96),
        (lay((0,), ()), lay((), (0,)), "all_to_all dim 0 to 1 axes [0]", 64),
        (lay((0, 1), ()), lay((0,), (1,)), "all_to_all dim 0 to 1 axes [1]", 32),
        (lay((1, 0), ()), lay((), (1, 0)), "all_to_all dim 0 to 1 axes [1, 0]", 48),
        (lay((), (), partial=(0,)), lay((), ()), "all_reduce axes [0] sum", 256),
        (lay((), (), partial=(0,), kind="max"), lay((), ()), "all_reduce axes [0] max", 256),
        (
            lay((), (), partial=(0, 1)),
            lay((), (), partial=(1,)),
            "all_reduce axes [0] sum",
            256,
        ),
        (
            lay((), (), partial=(0, 1)),
            lay((), ()),
            "all_slice dim 0 axes [2]; all_reduce axes [0, 1] sum; all_gather dim 0 axes [2]",
            320,
        ),
        (lay((), (), partial=(0,)), lay((), (0,)), "reduce_scatter dim 1 axes [0] sum", 128),
        (
            lay((1,), (), partial=(0,), kind="min"),
            lay((1, 0), ()),
            "reduce_scatter dim 0 axes [0] min",
            64,
        ),
        (
            lay((), (), partial=(0, 1)),
            lay((1,), ()),
            "all_slice dim 1 axes [2]; reduce_scatter dim 0 axes [1] sum; all_reduce axes [0] sum; "
            "all_gather dim 1 axes [2]",
            192,
        ),
        (lay((), (0,)), lay((1,), ()), "all_slice dim 0 axes [1]; all_gather dim 1 axes [0]", 64),
        (lay((0,), ()), lay((1,), ()), "collective_permute axes [0, 1] to [[1], []]", 128),
        (lay((0, 1), ()), lay((1, 0), ()), "collective_permute axes [0, 1] to [[1, 0], []]", 64),
        (lay((), ()), lay((), (), partial=(0,)), "mask axes [0] sum", 0),
        (lay((0,), ()), lay((0,), (), partial=(2,), kind="max"), "mask axes [2] max", 0),
        (
            lay((), (), partial=(0,), kind="max"),
            lay((), (), partial=(0,)),
            "all_reduce axes [0] max; mask axes [0] sum",
            256,
        ),
    ],
    ids=lambda value: str(value) if isinstance(value, Sharding) else "",
)
def test_a_plan_of_an_8x8_tensor_of_4_bytes(
    source: Sharding, target: Sharding, text: str, moved: int
) -> None:
    made = plan(source, target, (8, 8), 4, CUBE)
    assert (str(made), made.bytes_moved) == (text, moved)


@pytest.mark.parametrize(
    ("source", "target", "step"),
    [
        (lay((), (), (0, 1, 2)), lay((), (), (0,)), AllGather(2, (1, 2))),
        (lay((), (), (), partial=(0,)), lay((), (), (0,)), ReduceScatter(2, (0,))),
        (lay((0,), (), (1,)), lay((), (0,), (1,)), AllToAll(0, 1, (0,))),
    ],
    ids=["all_gather", "reduce_scatter", "all_to_all"],
)
def test_one_step_is_enough_for_a_tensor_of_rank_3(
    source: Sharding, target: Sharding, step: Step
) -> None:
    assert plan(source, target, (8, 8, 8), 4, CUBE).steps == (step,)


def test_bytes_grow_with_the_itemsize() -> None:
    source, target = lay((0,)), lay(())
    assert [plan(source, target, (8,), size, CUBE).bytes_moved for size in (1, 2, 8)] == [4, 8, 32]


@pytest.mark.parametrize(
    ("source", "target", "shape", "text", "moved"),
    [
        (lay((0,), (1,)), lay((1,), (0,)), (8, 8), "all_to_all dim 0 to 1 axes [1]", 48),
        (lay((), (), partial=(0,)), lay((), ()), (8, 8), "all_slice dim 0 axes [1]", 320),
        (lay((), (0,)), lay((), ()), (5, 6), "all_gather dim 1 axes [0]", 120),
    ],
    ids=["exchange of unlike axes", "idle devices help", "uneven"],
)
def test_a_plan_on_4x2(
    source: Sharding, target: Sharding, shape: Shape, text: str, moved: int
) -> None:
    found = plan(source, target, shape, 4, Grid("g", (4, 2)))
    assert text in str(found)
    assert found.bytes_moved == moved


@pytest.mark.parametrize(
    ("sizes", "source", "target", "rounds"),
    [
        ((2, 2), lay((), (0,)), lay((0, 1), ()), 1),
        ((2, 2), lay((1,), ()), lay((), (1, 0)), 1),
        ((2, 4), lay((1,), (0,)), lay((0,), (1,)), 2),
    ],
    ids=str,
)
def test_an_exchange_of_equal_shards_moves_what_devices_lack_in_as_few_collectives(
    sizes: tuple[int, ...], source: Sharding, target: Sharding, rounds: int
) -> None:
    grid, shape = Grid("g", sizes), (16, 64)
    found = plan(source, target, shape, 4, grid)
    (step,) = found.steps
    assert isinstance(step, Exchange)
    assert (found.bytes_moved, len(step.plan.sent)) == (512, rounds)
    assert costs(source, target, shape, grid)[0] > 512


def test_two_grids_are_refused() -> None:
    message = "cannot reshard from grid @g to grid @h"
    with pytest.raises(ReshardError, match=re.escape(message)):
        plan(lay((0,)), lay((0,), grid="h"), (8,), 4, CUBE)


def test_offsets_that_are_not_known_are_refused() -> None:
    given = Sharding("g", ((0,),), offsets=((0, None, 8),))
    with pytest.raises(ShardingError, match="not known before the program runs"):
        plan(given, lay((0,)), (8,), 4, CUBE)


def test_dimensions_that_are_not_split_may_have_any_size() -> None:
    assert plan(lay((0,), ()), lay((), ()), (8, 7), 4, CUBE).bytes_moved == 112
