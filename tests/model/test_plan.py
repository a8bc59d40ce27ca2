"""Every plan, run on arrays by an interpreter of its own, gives what its target says."""

import re
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import combinations, permutations
from math import lcm

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shard_dialect.model import (
    REDUCTIONS,
    AllGather,
    AllReduce,
    AllToAll,
    Grid,
    Plan,
    ReduceScatter,
    Reduction,
    ReshardError,
    Sharding,
    Step,
    plan,
)
from tests.model.interpreter import (
    DTYPE,
    Array,
    Axes,
    Shape,
    holds,
    lay,
    on_grid,
    run,
    spread,
    whole_array,
)

GRIDS = ((2,), (4,), (2, 2), (2, 3), (2, 2, 2))
SHAPES = {1: (24,), 2: (24, 48)}
PAIRS = {
    ((2,), 1): 7,
    ((4,), 1): 7,
    ((2, 2), 1): 63,
    ((2, 3), 1): 63,
    ((2, 2, 2), 1): 777,
    ((2,), 2): 13,
    ((4,), 2): 13,
    ((2, 2), 2): 223,
    ((2, 3), 2): 223,
    ((2, 2, 2), 2): 5139,
}
"""How many pairs there are for each grid and tensor rank, so that none is lost unseen.

With `a` axes and `r` dimensions, where `t` of the axes are partial on both sides:

    sum over t of C(a, t) * targets(a - t) * sources(a - t)
    targets(n) = sum over k of C(n, k) * k! * C(k + r - 1, k)
    sources(n) = the same, each term times 2 ** (n - k)
"""


def replan(source: Sharding, target: Sharding, grid: Grid, shape: Shape | None = None) -> Plan:
    return plan(
        source, target, SHAPES[source.rank] if shape is None else shape, DTYPE.itemsize, grid
    )


def arrangements(axes: Axes, rank: int) -> Iterator[tuple[Axes, ...]]:
    """Every way to split `rank` dimensions by all of `axes`, in all orders."""
    if rank == 0:
        yield from [()] if not axes else []
        return
    for count in range(len(axes) + 1):
        for first in permutations(axes, count):
            rest = tuple(axis for axis in axes if axis not in first)
            yield from ((first, *others) for others in arrangements(rest, rank - 1))


def subsets(axes: Sequence[int]) -> Iterator[Axes]:
    for count in range(len(axes) + 1):
        yield from combinations(axes, count)


@cache
def shardings(grid: Grid, rank: int, kind: Reduction = "sum") -> tuple[Sharding, ...]:
    """Every sharding of a tensor of `rank` dimensions, those with partial axes too."""
    return tuple(
        Sharding("g", split, partial, kind)
        for used in subsets(range(grid.rank))
        for split in arrangements(used, rank)
        for partial in subsets([axis for axis in range(grid.rank) if axis not in used])
    )


def pairs(grid: Grid, rank: int, kind: Reduction = "sum") -> Iterator[tuple[Sharding, Sharding]]:
    """Every source with every target that is partial over some of the source's axes, or none."""
    every = shardings(grid, rank, kind)
    for source in every:
        yield from (
            (source, target) for target in every if set(target.partial) <= set(source.partial)
        )


@cache
def start(source: Sharding, grid: Grid) -> tuple[Array, list[Array]]:
    """A tensor and its pieces under `source`, made once for all targets."""
    whole = whole_array(SHAPES[source.rank])
    return whole, spread(whole, source, grid)


EVERY_CASE = pytest.mark.parametrize(
    ("sizes", "rank"), list(PAIRS), ids=lambda v: "x".join(map(str, v)) if v in GRIDS else None
)


@EVERY_CASE
def test_the_pairs_are_all_there(sizes: Shape, rank: int) -> None:
    assert len(list(pairs(Grid("g", sizes), rank))) == PAIRS[sizes, rank]


@pytest.mark.parametrize("kind", ["sum", "max"])
@EVERY_CASE
def test_a_plan_gives_the_pieces_of_its_target(sizes: Shape, rank: int, kind: Reduction) -> None:
    grid = Grid("g", sizes)
    for source, target in pairs(grid, rank, kind):
        whole, pieces = start(source, grid)
        made = replan(source, target, grid)
        held, _ = run(made.steps, pieces, grid)
        assert holds(held, whole, target, grid), f"{source} -> {target}: {made}"


@EVERY_CASE
def test_bytes_moved_are_those_of_the_steps(sizes: Shape, rank: int) -> None:
    grid = Grid("g", sizes)
    for source, target in pairs(grid, rank):
        made = replan(source, target, grid)
        _, moved = run(made.steps, start(source, grid)[1], grid)
        assert made.bytes_moved == moved, f"{source} -> {target}: {made}"


@pytest.mark.parametrize("kind", REDUCTIONS)
@EVERY_CASE
def test_nothing_leads_from_a_sharding_to_itself(sizes: Shape, rank: int, kind: Reduction) -> None:
    grid = Grid("g", sizes)
    for sharding in shardings(grid, rank, kind):
        assert replan(sharding, sharding, grid) == Plan((), 0)


@EVERY_CASE
def test_each_partial_axis_that_must_go_is_reduced_once(sizes: Shape, rank: int) -> None:
    grid = Grid("g", sizes)
    for source, target in pairs(grid, rank):
        reduced = [
            axis
            for step in replan(source, target, grid).steps
            if isinstance(step, AllReduce | ReduceScatter)
            for axis in step.axes
        ]
        assert sorted(reduced) == sorted(set(source.partial) - set(target.partial))


@EVERY_CASE
def test_a_replicated_source_reaches_every_split_for_free(sizes: Shape, rank: int) -> None:
    grid = Grid("g", sizes)
    source = Sharding.replicated("g", rank)
    for target in shardings(grid, rank):
        if not target.partial:
            assert replan(source, target, grid).bytes_moved == 0


@EVERY_CASE
def test_after_says_what_each_step_leaves(sizes: Shape, rank: int) -> None:
    grid = Grid("g", sizes)
    for source, target in pairs(grid, rank):
        now, (whole, held) = source, start(source, grid)
        for step in replan(source, target, grid).steps[:-1]:
            now, held = step.after(now), on_grid(step, held, grid)
            assert holds(held, whole, now, grid), f"{source} -> {target}: {step} to {now}"


@st.composite
def reshards(draw: st.DrawFn) -> tuple[Grid, Sharding, Sharding, Shape]:
    """Grids with axes of size 1 too, tensors to rank 3, no larger than both shardings need."""
    grid = Grid("g", tuple(draw(st.lists(st.integers(1, 4), min_size=1, max_size=3))))
    rank = draw(st.integers(0, 3))
    kind = draw(st.sampled_from(REDUCTIONS))

    def sharding(may_be_partial: Sequence[int]) -> Sharding:
        split: list[Axes] = [()] * rank
        partial: Axes = ()
        for axis in draw(st.permutations(range(grid.rank))):
            dim = draw(st.integers(-1, rank))
            if 0 <= dim < rank:
                split[dim] += (axis,)
            elif dim == rank and axis in may_be_partial:
                partial += (axis,)
        return Sharding("g", tuple(split), partial, kind)

    source = sharding(range(grid.rank))
    target = sharding(source.partial)
    sides = zip(source.split_axes, target.split_axes, strict=True)
    shape = (lcm(grid.axes_size(one), grid.axes_size(other)) for one, other in sides)
    return grid, source, target, tuple(shape)


@settings(max_examples=300, deadline=None, derandomize=True)
@given(reshards())
def test_a_plan_is_exact_for_the_smallest_tensors(
    case: tuple[Grid, Sharding, Sharding, Shape],
) -> None:
    grid, source, target, shape = case
    whole = whole_array(shape)
    made = replan(source, target, grid, shape)
    held, moved = run(made.steps, spread(whole, source, grid), grid)
    assert holds(held, whole, target, grid)
    assert made.bytes_moved == moved


@pytest.mark.parametrize("kind", REDUCTIONS)
def test_the_random_pieces_of_a_source_combine_to_the_tensor(kind: Reduction) -> None:
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
        (lay((), (), partial=(0, 1)), lay((), ()), "all_reduce axes [0, 1] sum", 384),
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
            "reduce_scatter dim 0 axes [1] sum; all_reduce axes [0] sum",
            256,
        ),
        (
            lay((), (0,)),
            lay((1,), ()),
            "all_slice dim 0 axes [1]; all_gather dim 1 axes [0]",
            64,
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
    ("source", "target", "message"),
    [
        (lay((0,)), lay((0,), grid="h"), "cannot reshard from grid @g to grid @h"),
        (lay(()), lay((), partial=(0,)), "cannot reshard from [[]] to [[], [0]]: only an op"),
        (
            lay((), partial=(0,)),
            lay((), partial=(0, 1)),
            "cannot reshard from [[], [0]] to [[], [0, 1]]: only an op",
        ),
        (
            lay((), partial=(0,), kind="max"),
            lay((), partial=(0,), kind="sum"),
            "cannot reshard from [[], {max = [0]}] to [[], [0]]: partial max is not partial sum",
        ),
    ],
    ids=["two grids", "not partial", "partial over less", "two kinds"],
)
def test_what_no_step_does_is_refused(source: Sharding, target: Sharding, message: str) -> None:
    with pytest.raises(ReshardError, match=re.escape(message)):
        plan(source, target, (8,), 4, CUBE)


@pytest.mark.parametrize(
    ("source", "target"),
    [(lay((), (0, 1)), lay((), ())), (lay((), ()), lay((), (0, 1)))],
    ids=["source", "target"],
)
def test_an_uneven_dimension_is_refused(source: Sharding, target: Sharding) -> None:
    message = (
        f"cannot reshard from {source} to {target}: "
        "dimension 1 of size 6 does not divide by 4 devices"
    )
    with pytest.raises(ReshardError, match=re.escape(message)):
        plan(source, target, (8, 6), 4, CUBE)


def test_dimensions_that_are_not_split_may_have_any_size() -> None:
    assert plan(lay((0,), ()), lay((), ()), (8, 7), 4, CUBE).bytes_moved == 112
