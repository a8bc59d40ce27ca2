"""Reshard plans: the cheapest steps from one sharding of a tensor to another, without any IR.

    [[0], []]  ->  [[], [0]]        all_to_all dim 0 to 1 axes [0]
    [[0], []]  ->  [[1], []]        collective_permute axes [0, 1] to [[1], [], []]
    [[], []]   ->  [[0], [], {halo = [[1, 2], []]}]
                                    all_slice dim 0 axes [0]; update_halo dim 0 axes [0] [1, 2]

`plan` compares bytes moved, or time on a device model, then the number of steps, then peak memory.
A plan is exact if no sequence of steps with at most one permutation is better. It is exact as long
as each search visits at most `EXACT` layouts. Beyond that, the plan comes from the search on full
axes, or from the greedy steps: it is correct, but maybe not the cheapest (`Plan.exact` is false).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from math import gcd, prod

from shard_dialect.model.axis import SubAxis, full_axis
from shard_dialect.model.collectives import (
    AllToAll,
    ReduceScatter,
    ReshardError,
    Step,
)
from shard_dialect.model.grid import Grid
from shard_dialect.model.grid_refinement import Refinement
from shard_dialect.model.sharding import Shape, Sharding
from shard_dialect.planner.greedy import applied, common_prefix, greedy
from shard_dialect.planner.grid_steps import step_on_grid, steps_on_grid
from shard_dialect.planner.halos import halo_steps, sliced_with_halos
from shard_dialect.planner.layout import AxisNumbers, Layout, Problem
from shard_dialect.planner.offsets import ways_through_equal_shards
from shard_dialect.planner.operands import bytes_moved
from shard_dialect.planner.permutation import may_permute, permute, without_size_one
from shard_dialect.planner.search import (
    Path,
    SearchTooLong,
    cheapest,
    cheapest_with_permute,
    missing,
)
from shard_dialect.planner.step_prices import BYTES, Prices
from shard_dialect.planner.time_search import TimedProblem, fastest

EXACT = 2000
"""The most layouts that one search may visit."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The steps of one reshard, and the bytes that they move per device.

    The steps use axes of `grid`: the grid of the shardings, or a refined grid
    (`model.grid_refinement`) where the plan is cheaper on sub-axes.
    """

    steps: tuple[Step, ...]
    bytes_moved: int
    grid: Grid
    exact: bool = True
    picoseconds: int | None = None
    """Of a plan for time, how long it takes on the device model."""

    @property
    def cost(self) -> int:
        """What the plan was to keep low: its bytes, or its picoseconds."""
        return self.bytes_moved if self.picoseconds is None else self.picoseconds

    def __str__(self) -> str:
        return "; ".join(map(str, self.steps)) or "nothing"


@lru_cache(maxsize=65536)
def plan(
    source: Sharding,
    target: Sharding,
    shape: Shape,
    itemsize: int,
    grid: Grid,
    sub_axes: bool = True,
    limit: int = EXACT,
    prices: Prices = BYTES,
) -> Plan:
    """The cheapest steps from `source` to `target` for a tensor of global `shape` on `grid`.

    `itemsize` is in bytes. Without `sub_axes` the steps use no finer axes than the shardings do. A
    search visits at most `limit` layouts. A plan from or to offsets is correct, but may not be the
    cheapest. `prices` say what is cheap. Raises `ReshardError` for shardings on two grids, and
    `ShardingError` for halos and offsets of unknown size.
    """
    _refuse(source, target)
    if source == target:
        return _planned((), source, shape, itemsize, grid, prices)
    if source.halos or target.halos:
        return _with_halos(source, target, shape, itemsize, grid, limit, prices)
    if source.offsets or target.offsets:
        if any(isinstance(axis, SubAxis) for axis in (*source.axes, *target.axes)):
            raise ReshardError(f"cannot reshard from {source} to {target}: offsets beside sub-axes")
        return _with_offsets(source, target, shape, itemsize, grid, limit, prices)
    used = [axis for axis in (*source.axes, *target.axes) if isinstance(axis, SubAxis)]
    coarse = Refinement.of(grid, used)
    if coarse is not None:
        grid, source, target = coarse.fine, coarse.refined(source), coarse.refined(target)
    if any(_without_ones(each, grid) != each for each in (source, target)):
        return _ignoring_ones(source, target, shape, itemsize, grid, sub_axes, limit, prices)
    best, bound = _on_full_axes(source, target, shape, itemsize, grid, limit, prices)
    finest = Refinement.finest(grid) if sub_axes else None
    if finest is None or (best.cost <= bound and len(best.steps) == 1):
        return best
    fine, _ = _on_full_axes(
        finest.refined(source), finest.refined(target), shape, itemsize, finest.fine, limit, prices
    )
    cheaper = (fine.cost, len(fine.steps)) < (best.cost, len(best.steps))
    return fine if cheaper else replace(best, exact=fine.exact)


def _without_ones(sharding: Sharding, grid: Grid) -> Sharding:
    """The sharding without split axes of size 1."""
    split = tuple(without_size_one(axes, grid) for axes in sharding.split_axes)
    return replace(sharding, split_axes=split)


def _ignoring_ones(
    source: Sharding,
    target: Sharding,
    shape: Shape,
    itemsize: int,
    grid: Grid,
    sub_axes: bool,
    limit: int,
    prices: Prices,
) -> Plan:
    """The plan without the axes of size 1, which permutations that move nothing add or remove.

    Or the plan that treats them like other axes, if it has fewer steps.
    """
    best, _ = _on_full_axes(source, target, shape, itemsize, grid, limit, prices)
    bare_source, bare_target = _without_ones(source, grid), _without_ones(target, grid)
    between = plan(bare_source, bare_target, shape, itemsize, grid, sub_axes, limit, prices)
    fine = Refinement.finest(grid) if between.grid != grid else None
    if fine is not None:
        grid, source, target = fine.fine, fine.refined(source), fine.refined(target)
    begin, end = _without_ones(source, grid), _without_ones(target, grid)
    steps = [
        *([permute(source, begin, grid)] if source != begin else []),
        *between.steps,
        *([permute(end, target, grid)] if target != end else []),
    ]
    if (between.cost, len(steps)) < (best.cost, len(best.steps)):
        return replace(between, steps=tuple(steps))
    return replace(best, exact=between.exact and best.cost == between.cost)


def _refuse(source: Sharding, target: Sharding) -> None:
    if source.grid != target.grid:
        raise ReshardError(
            f"cannot reshard from grid @{source.grid} to grid @{target.grid}: "
            "both shardings must be on one grid"
        )


def _with_halos(
    source: Sharding,
    target: Sharding,
    shape: Shape,
    itemsize: int,
    grid: Grid,
    limit: int,
    prices: Prices,
) -> Plan:
    """A plan that crops halos first, reshards without halos, and then updates the missing halos.

    The steps use full axes of `grid`, or of its refinement by the sub-axes in use.
    """
    used = [axis for axis in (*source.axes, *target.axes) if isinstance(axis, SubAxis)]
    coarse = Refinement.of(grid, used)
    if coarse is not None:
        source, target = coarse.refined(source), coarse.refined(target)
        return _with_halos(source, target, shape, itemsize, coarse.fine, limit, prices)
    if source.bare == target.bare:
        steps, exact = halo_steps(source, target), True
    else:
        slices = sliced_with_halos(source, target)
        last = target.bare
        for each in slices:
            last = last.with_dim(each.dim, ())
        between = plan(source.bare, last, shape, itemsize, grid, False, limit, prices)
        for each in slices:
            last = each.after(last)
        crops, updates = halo_steps(source, source.bare), halo_steps(last, target)
        steps, exact = (*crops, *between.steps, *slices, *updates), between.exact
    return _planned(steps, source, shape, itemsize, grid, prices, exact)


def _planned(
    steps: tuple[Step, ...],
    source: Sharding,
    shape: Shape,
    itemsize: int,
    grid: Grid,
    prices: Prices,
    exact: bool = True,
) -> Plan:
    """The plan of these steps, with what it costs."""
    total = bytes_moved(steps, source, shape, itemsize, grid)
    time = prices.steps(steps, source, shape, itemsize, grid) if prices.is_time else None
    return Plan(steps, total, grid, exact, time)


def _with_offsets(
    source: Sharding,
    target: Sharding,
    shape: Shape,
    itemsize: int,
    grid: Grid,
    limit: int,
    prices: Prices,
) -> Plan:
    """The cheapest plan whose steps between equal shards are planned without the offsets.

    The steps use full axes of `grid`.
    """
    best: Plan | None = None
    for way in ways_through_equal_shards(source, target, shape, grid):
        try:
            between = plan(way.first, way.last, way.shape, itemsize, grid, False, limit, prices)
            steps = (*way.before, *between.steps, *way.after)
            found = _planned(steps, source, shape, itemsize, grid, prices, False)
        except ReshardError:  # a step would cut a dimension further whose offsets stay
            continue
        if best is None or (found.cost, len(steps)) < (best.cost, len(best.steps)):
            best = found
    if best is None:
        raise ReshardError(f"cannot reshard from {source} to {target}")
    return best


def _on_full_axes(
    source: Sharding,
    target: Sharding,
    shape: Shape,
    itemsize: int,
    grid: Grid,
    limit: int,
    prices: Prices,
) -> tuple[Plan, int]:
    """The best plan on the axes of `grid`, and a lower bound on the cost without permutations."""
    between = target
    if source.partial and target.partial and source.reduction != target.reduction:
        between = target.with_partial(())
    problem, axes, scale = _problem(source, between, shape, grid)
    solution = _solve(problem, limit)
    kind = source.reduction if source.partial else between.reduction
    steps = steps_on_grid(solution.steps, source, target, kind, axes, grid)
    found = _planned(steps, source, shape, itemsize, grid, prices, solution.exact)
    if prices.is_time:
        found = _fastest(found, source, between, target, shape, itemsize, grid, limit, prices)
        return found, 0
    return found, solution.bound * scale * itemsize // problem.unit


def _fastest(
    known: Plan,
    source: Sharding,
    between: Sharding,
    target: Sharding,
    shape: Shape,
    itemsize: int,
    grid: Grid,
    limit: int,
    prices: Prices,
) -> Plan:
    """The fastest plan, or the `known` one, which is for bytes, if the search takes too long.

    From `between` a mask leads to the target.
    """
    problem, axes = _whole_problem(source, between, shape, grid)
    kind = source.reduction if source.partial else between.reduction

    @cache
    def sharding(layout: Layout) -> Sharding:
        split = tuple(tuple(axes[axis] for axis in each) for each in layout[0])
        return Sharding(source.grid, split, tuple(axes[axis] for axis in layout[1]), kind)

    @cache
    def price(step: Step | Layout, layout: Layout) -> int:
        now = sharding(layout)
        if isinstance(step, tuple) and not may_permute(now, sharding(step), grid):
            return known.cost + 1  # which is too much
        return prices.step(step_on_grid(step, now, kind, axes, grid), now, shape, itemsize, grid)

    try:
        path = fastest(TimedProblem(problem, price), known.cost, limit)
    except SearchTooLong:
        return replace(known, exact=False)
    steps = steps_on_grid(path.steps, source, target, kind, axes, grid)
    return _planned(steps, source, shape, itemsize, grid, prices)


def _problem(
    source: Sharding, target: Sharding, shape: Shape, grid: Grid
) -> tuple[Problem, AxisNumbers, int]:
    """The search problem, reduced: without unchanged axes, and with sizes as small as possible.

    Also the grid axes that the problem's axes stand for, and how many elements of the tensor one
    element of the problem stands for.
    """
    kept: set[object] = set()
    sizes, uneven = [], []
    for size, source_axes, target_axes in zip(
        shape, source.split_axes, target.split_axes, strict=True
    ):
        even = size % grid.axes_size(source_axes) == 0 and size % grid.axes_size(target_axes) == 0
        common = source_axes[: common_prefix(source_axes, target_axes)] if even else ()
        kept.update(common)
        sizes.append(size // grid.axes_size(common))
        uneven.append(not even)
    if not any(uneven):
        kept |= set(source.partial) & set(target.partial)
    barred = {*grid.stage_axes} - {*source.axes, *target.axes}
    axes = tuple(axis for axis in range(grid.rank) if axis not in {*kept, *barred})
    numbers = {axis: number for number, axis in enumerate(axes)}
    devices = grid.axes_size(axes)
    small = tuple(
        size if odd else gcd(size, devices) for size, odd in zip(sizes, uneven, strict=True)
    )

    def layout(sharding: Sharding) -> Layout:
        split = tuple(
            tuple(numbers[full_axis(axis)] for axis in dim_axes if axis not in kept)
            for dim_axes in sharding.split_axes
        )
        return split, tuple(
            numbers[full_axis(axis)] for axis in sharding.partial if axis not in kept
        )

    problem = Problem(
        tuple(grid.axes_size((axis,)) for axis in axes),
        small,
        tuple(uneven),
        layout(source),
        layout(target),
    )
    return problem, axes, prod(sizes) // prod(small)


def _whole_problem(
    source: Sharding, target: Sharding, shape: Shape, grid: Grid
) -> tuple[Problem, AxisNumbers]:
    """The search problem with all axes and sizes, and the grid axes that its axes stand for."""
    barred = {*grid.stage_axes} - {*source.axes, *target.axes}
    axes = tuple(axis for axis in range(grid.rank) if axis not in barred)
    numbers = {axis: number for number, axis in enumerate(axes)}

    def layout(sharding: Sharding) -> Layout:
        split = tuple(
            tuple(numbers[full_axis(axis)] for axis in each) for each in sharding.split_axes
        )
        return split, tuple(sorted(numbers[full_axis(axis)] for axis in sharding.partial))

    uneven = tuple(
        any(size % grid.axes_size(end.split_axes[dim]) for end in (source, target))
        for dim, size in enumerate(shape)
    )
    sizes = tuple(grid.axes_size((axis,)) for axis in axes)
    return Problem(sizes, shape, uneven, layout(source), layout(target)), axes


@dataclass(frozen=True, slots=True)
class _Solution:
    steps: tuple[Step | Layout, ...]
    """A layout stands for the permutation that leads to it."""
    bound: int
    exact: bool


@lru_cache(maxsize=65536)
def _solve(problem: Problem, limit: int) -> _Solution:
    bound = missing(problem)
    steps = greedy(problem)
    most = _cost(problem, steps)
    if len(steps) == 1 and most <= bound:
        return _Solution(tuple(steps), bound, True)
    exact = True
    try:
        path = cheapest(problem, limit)
    except SearchTooLong:
        exact = False
        path = Path(tuple(steps), (most, len(steps), 0))
    best = _Solution(path.steps, bound, exact)
    if path.cost[0] <= bound and len(path.steps) <= 2 and not _is_permutation(problem):
        return best
    try:
        split_path = cheapest_with_permute(problem, problem, path.cost[0], limit)
    except SearchTooLong:
        return replace(best, exact=False)
    if split_path is not None and split_path.cost[:2] < path.cost[:2]:
        begin, end = (Sharding("", *layout) for layout in (split_path.source, split_path.target))
        if not may_permute(begin, end, Grid("", problem.sizes)):
            return replace(best, exact=False)
        return replace(
            best, steps=(*split_path.before.steps, split_path.target, *split_path.after.steps)
        )
    return best


def _is_permutation(problem: Problem) -> bool:
    """Whether one permutation leads from the source to the target."""
    (source, partial), (target, target_partial) = problem.source, problem.target
    pairs = zip((*source, partial), (*target, target_partial), strict=True)
    return all(
        problem.count(source_axes) == problem.count(target_axes)
        for source_axes, target_axes in pairs
    )


def _cost(problem: Problem, steps: Sequence[Step]) -> int:
    total, now = 0, problem.source
    for step in steps:
        n = problem.count(step.axes)  # type: ignore[arg-type]  # numbers here
        after = applied(step, now)
        operand = problem.elements(now)
        if isinstance(step, ReduceScatter | AllToAll):
            dim = step.dim if isinstance(step, ReduceScatter) else step.target_dim
            size_before = problem.shard(dim, problem.count(now[0][dim]))
            operand = operand // size_before * problem.shard(dim, problem.count(after[0][dim])) * n
        total += step.bytes_moved(n, (operand,), problem.unit)
        now = after
    return total
