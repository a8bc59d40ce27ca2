"""The search problem of a reshard: layouts on numbered axes, as small as they can be.

[[0, 1], []]  ->  [[0], [1]]  of 8x8 on @g(2x2x2)
  is the problem of moving axis 1 alone, for 2x2 elements, each of which stands for 16
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from math import gcd, prod

from shard_dialect.collectives import Step
from shard_dialect.model.grid import Grid, full_axis
from shard_dialect.model.sharding import Shape, Sharding
from shard_dialect.planner.layouts.greedy import applied, common_prefix, greedy
from shard_dialect.planner.layouts.layout import AxisNumbers, Layout, Problem
from shard_dialect.planner.layouts.search import (
    Path,
    SearchTooLong,
    cheapest,
    cheapest_with_permute,
    missing,
)
from shard_dialect.planner.permutation import may_permute


def reduced_problem(
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
        # Major axes that a dimension keeps stay where they are: each of its parts is the same
        # problem.
        common = source_axes[: common_prefix(source_axes, target_axes)] if even else ()
        kept.update(common)
        sizes.append(size // grid.axes_size(common))
        uneven.append(not even)
    if not any(uneven):
        kept |= set(source.partial) & set(target.partial)
    axes = tuple(axis for axis in _axes_of_use(source, target, grid) if axis not in kept)
    numbers = {axis: number for number, axis in enumerate(axes)}
    devices = grid.axes_size(axes)
    small = tuple(
        # Only the factors that devices can split matter: 4096 rows on 2x2 devices are a problem of
        # 4.
        size if odd else gcd(size, devices)
        for size, odd in zip(sizes, uneven, strict=True)
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


def _axes_of_use(source: Sharding, target: Sharding, grid: Grid) -> AxisNumbers:
    """The grid's axes, but for those that a reshard has no use for unless its ends have them.

    Along an axis of one device nothing moves. Devices of two stages differ along their axes: no
    reshard may use these for itself.
    """
    used = {*source.axes, *target.axes}
    return tuple(
        axis
        for axis, size in enumerate(grid.shape)
        if axis in used or (size != 1 and axis not in grid.stage_axes)
    )


def whole_problem(
    source: Sharding, target: Sharding, shape: Shape, grid: Grid
) -> tuple[Problem, AxisNumbers]:
    """The search problem with all axes and sizes, and the grid axes that its axes stand for."""
    axes = _axes_of_use(source, target, grid)
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
class Solution:
    """The steps of a problem; a layout stands for the permutation that leads to it."""

    steps: tuple[Step | Layout, ...]
    bound: int
    """A lower bound on the cost without permutations."""
    exact: bool
    """Whether the search has shown that no other steps are cheaper."""


@lru_cache(maxsize=65536)
def solve(problem: Problem, limit: int) -> Solution:
    """The cheapest steps, or those of the greedy search if another visits `limit` layouts."""
    bound = missing(problem)
    steps = greedy(problem)
    most = _cost(problem, steps)
    # One step at the lower bound: no search can improve on it. So are most reshards.
    if len(steps) == 1 and most <= bound:
        return Solution(tuple(steps), bound, True)
    exact = True
    try:
        path = cheapest(problem, limit)
    except SearchTooLong:
        exact = False
        path = Path(tuple(steps), (most, len(steps), 0))
    best = Solution(path.steps, bound, exact)
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
        dim = step.cut_dim
        if step.communicates and dim is not None:
            size_before = problem.shard(dim, problem.count(now[0][dim]))
            operand = operand // size_before * problem.shard(dim, problem.count(after[0][dim])) * n
        total += step.bytes_moved(n, (operand,), problem.unit)
        now = after
    return total
