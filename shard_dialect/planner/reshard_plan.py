"""Reshard plans: the cheapest steps from one sharding of a tensor to another, without any IR.

    [[0], []]  ->  [[], [0]]        all_to_all dim 0 to 1 axes [0]
    [[0], []]  ->  [[1], []]        collective_permute axes [0, 1] to [[1], [], []]
    [[], []]   ->  [[0], [], {halo = [[1, 2], []]}]
                                    all_slice dim 0 axes [0]; update_halo dim 0 axes [0] [1, 2]

`plan` compares bytes moved, then the number of steps, then peak memory. A plan is exact if no
sequence of steps with at most one permutation is better. It is exact as long as each search visits
at most `EXACT` layouts. Beyond that, the plan comes from the search on full axes, or from the
greedy steps: it is correct, but maybe not the cheapest (`Plan.exact` is false).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from math import gcd, prod

from shard_dialect.model.axis import SubAxis, full_axis
from shard_dialect.model.collectives import (
    AllReduce,
    AllToAll,
    Mask,
    ReduceScatter,
    ReshardError,
    Step,
)
from shard_dialect.model.grid import Grid
from shard_dialect.model.grid_refinement import Refinement
from shard_dialect.model.sharding import Reduction, Shape, Sharding
from shard_dialect.planner.greedy import applied, common_prefix, greedy
from shard_dialect.planner.halos import halo_steps, sliced_with_halos
from shard_dialect.planner.layout import AxisNumbers, Layout, Problem
from shard_dialect.planner.offsets import ways_through_equal_shards
from shard_dialect.planner.permutation import may_permute, permute, without_size_one
from shard_dialect.planner.search import (
    Path,
    SearchTooLong,
    cheapest,
    cheapest_with_permute,
    missing,
)

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
) -> Plan:
    """The cheapest steps from `source` to `target` for a tensor of global `shape` on `grid`.

    `itemsize` is in bytes. Without `sub_axes` the steps use no finer axes than the shardings do. A
    search visits at most `limit` layouts. A plan from or to offsets is correct, but may not be the
    cheapest. Raises `ReshardError` for shardings on two grids, and `ShardingError` for halos and
    offsets of unknown size.
    """
    _refuse(source, target)
    if source == target:
        return Plan((), 0, grid)
    if source.halos or target.halos:
        return _with_halos(source, target, shape, itemsize, grid, limit)
    if source.offsets or target.offsets:
        if any(isinstance(axis, SubAxis) for axis in (*source.axes, *target.axes)):
            raise ReshardError(f"cannot reshard from {source} to {target}: offsets beside sub-axes")
        return _with_offsets(source, target, shape, itemsize, grid, limit)
    used = [axis for axis in (*source.axes, *target.axes) if isinstance(axis, SubAxis)]
    coarse = Refinement.of(grid, used)
    if coarse is not None:
        grid, source, target = coarse.fine, coarse.refined(source), coarse.refined(target)
    if any(_without_ones(each, grid) != each for each in (source, target)):
        return _ignoring_ones(source, target, shape, itemsize, grid, sub_axes, limit)
    best, bound = _on_full_axes(source, target, shape, itemsize, grid, limit)
    finest = Refinement.finest(grid) if sub_axes else None
    if finest is None or (best.bytes_moved <= bound and len(best.steps) == 1):
        return best
    fine, _ = _on_full_axes(
        finest.refined(source), finest.refined(target), shape, itemsize, finest.fine, limit
    )
    cheaper = (fine.bytes_moved, len(fine.steps)) < (best.bytes_moved, len(best.steps))
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
) -> Plan:
    """The plan without the axes of size 1, which permutations that move nothing add or remove.

    Or the plan that treats them like other axes, if it has fewer steps.
    """
    best, _ = _on_full_axes(source, target, shape, itemsize, grid, limit)
    bare_source, bare_target = _without_ones(source, grid), _without_ones(target, grid)
    between = plan(bare_source, bare_target, shape, itemsize, grid, sub_axes, limit)
    fine = Refinement.finest(grid) if between.grid != grid else None
    if fine is not None:
        grid, source, target = fine.fine, fine.refined(source), fine.refined(target)
    begin, end = _without_ones(source, grid), _without_ones(target, grid)
    steps = [
        *([permute(source, begin, grid)] if source != begin else []),
        *between.steps,
        *([permute(end, target, grid)] if target != end else []),
    ]
    if (between.bytes_moved, len(steps)) < (best.bytes_moved, len(best.steps)):
        return replace(between, steps=tuple(steps))
    return replace(best, exact=between.exact and best.bytes_moved == between.bytes_moved)


def bytes_moved(
    steps: Sequence[Step], source: Sharding, shape: Shape, itemsize: int, grid: Grid
) -> int:
    """The bytes per device that `steps` move, for a tensor of global `shape` sharded as `source`.

    For uneven shardings these are the bytes of the largest shard, padded to what a step divides.
    """
    total, now = 0, source
    for step in steps:
        operand = operand_shape(step, now, shape, grid)
        total += step.bytes_moved(grid.axes_size(step.axes), operand, itemsize)
        now = step.after(now)
    return total


def operand_shape(step: Step, now: Sharding, shape: Shape, grid: Grid) -> Shape:
    """The local shape of the operand of `step`: the largest shard, padded to what it divides.

    >>> operand_shape(ReduceScatter(0, (0,)), Sharding("g", ((),), (0,)), (7,), Grid("g", (4,)))
    (8,)
    """
    operand = list(now.local_shape(shape, grid))
    if isinstance(step, ReduceScatter | AllToAll):
        dim = step.dim if isinstance(step, ReduceScatter) else step.target_dim
        count = grid.axes_size(step.axes)
        operand[dim] = step.after(now).local_shape(shape, grid)[dim] * count
    return tuple(operand)


def _refuse(source: Sharding, target: Sharding) -> None:
    if source.grid != target.grid:
        raise ReshardError(
            f"cannot reshard from grid @{source.grid} to grid @{target.grid}: "
            "both shardings must be on one grid"
        )


def _with_halos(
    source: Sharding, target: Sharding, shape: Shape, itemsize: int, grid: Grid, limit: int
) -> Plan:
    """A plan that crops halos first, reshards without halos, and then updates the missing halos.

    The steps use full axes of `grid`, or of its refinement by the sub-axes in use.
    """
    used = [axis for axis in (*source.axes, *target.axes) if isinstance(axis, SubAxis)]
    coarse = Refinement.of(grid, used)
    if coarse is not None:
        source, target = coarse.refined(source), coarse.refined(target)
        return _with_halos(source, target, shape, itemsize, coarse.fine, limit)
    if source.bare == target.bare:
        steps, exact = halo_steps(source, target), True
    else:
        slices = sliced_with_halos(source, target)
        last = target.bare
        for each in slices:
            last = last.with_dim(each.dim, ())
        between = plan(source.bare, last, shape, itemsize, grid, False, limit)
        for each in slices:
            last = each.after(last)
        crops, updates = halo_steps(source, source.bare), halo_steps(last, target)
        steps, exact = (*crops, *between.steps, *slices, *updates), between.exact
    total = bytes_moved(steps, source, shape, itemsize, grid)
    return Plan(steps, total, grid, exact)


def _with_offsets(
    source: Sharding, target: Sharding, shape: Shape, itemsize: int, grid: Grid, limit: int
) -> Plan:
    """The cheapest plan whose steps between equal shards are planned without the offsets.

    The steps use full axes of `grid`.
    """
    best: Plan | None = None
    for way in ways_through_equal_shards(source, target, shape, grid):
        try:
            between = plan(way.first, way.last, way.shape, itemsize, grid, False, limit)
            steps = (*way.before, *between.steps, *way.after)
            total = bytes_moved(steps, source, shape, itemsize, grid)
        except ReshardError:  # a step would cut a dimension further whose offsets stay
            continue
        if best is None or (total, len(steps)) < (best.bytes_moved, len(best.steps)):
            best = Plan(steps, total, grid, False)
    if best is None:
        raise ReshardError(f"cannot reshard from {source} to {target}")
    return best


def _on_full_axes(
    source: Sharding, target: Sharding, shape: Shape, itemsize: int, grid: Grid, limit: int
) -> tuple[Plan, int]:
    """The best plan on the axes of `grid`, and a lower bound on bytes without permutations."""
    between = target
    if source.partial and target.partial and source.reduction != target.reduction:
        between = target.with_partial(())
    problem, axes, scale = _problem(source, between, shape, grid)
    solution = _solve(problem, limit)
    steps: list[Step] = []
    now = source
    kind = source.reduction if source.partial else between.reduction
    for each in solution.steps:
        step = step_on_grid(each, now, kind, axes, grid)
        steps.append(step)
        now = step.after(now)
    if between != target:
        steps.append(Mask(target.partial, target.reduction))
        now = steps[-1].after(now)
    assert now == target, f"the plan from {source} to {target} ends at {now}"
    total = bytes_moved(steps, source, shape, itemsize, grid)
    bound = solution.bound * scale * itemsize // problem.unit
    return Plan(tuple(steps), total, grid, solution.exact), bound


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


def step_on_grid(
    step: Step | Layout, now: Sharding, kind: Reduction, axes: AxisNumbers, grid: Grid
) -> Step:
    """The step of a reshard for a step of the search, which numbers axes within its problem.

    `axes` are the grid axes of the problem's, `now` is the sharding before, `kind` the reduction.
    """
    if isinstance(step, tuple):
        return _permute(step, now, kind, axes, grid)
    on_grid = replace(step, axes=tuple(axes[axis] for axis in step.axes))  # type: ignore[index]
    if isinstance(on_grid, AllReduce | ReduceScatter | Mask):
        return replace(on_grid, reduction=kind)
    return on_grid


def _permute(layout: Layout, now: Sharding, kind: Reduction, axes: AxisNumbers, grid: Grid) -> Step:
    fixed = [tuple(axis for axis in split if axis not in axes) for split in now.split_axes]
    split = tuple(
        stays + tuple(axes[axis] for axis in split)
        for stays, split in zip(fixed, layout[0], strict=True)
    )
    partial = tuple(axis for axis in now.partial if axis not in axes)
    partial += tuple(axes[axis] for axis in layout[1])
    return permute(now, Sharding(now.grid, split, partial, kind), grid)
