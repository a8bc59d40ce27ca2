"""From the steps that a search found, which number axes within its problem, to steps on a grid."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from shard_dialect.model.collectives import AllReduce, Mask, ReduceScatter, Step
from shard_dialect.model.grid import Grid
from shard_dialect.model.sharding import Reduction, Sharding
from shard_dialect.planner.layouts.layout import AxisNumbers, Layout
from shard_dialect.planner.permutation import permute


def steps_on_grid(
    steps: Sequence[Step | Layout],
    source: Sharding,
    target: Sharding,
    kind: Reduction,
    axes: AxisNumbers,
    grid: Grid,
) -> tuple[Step, ...]:
    """The steps that the search found, on the axes of the grid, and the mask that ends them."""
    found: list[Step] = []
    now = source
    for each in steps:
        step = step_on_grid(each, now, kind, axes, grid)
        found.append(step)
        now = step.after(now)
    if now != target:
        found.append(Mask(target.partial, target.reduction))
        now = found[-1].after(now)
    assert now == target, f"the plan from {source} to {target} ends at {now}"
    return tuple(found)


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
