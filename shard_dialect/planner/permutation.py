"""The permutation of devices that changes one sharding into another with as many shards."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Sequence
from functools import lru_cache

from shard_dialect.model.axis import Axes, Axis, in_order
from shard_dialect.model.collectives import Permute, ReshardError
from shard_dialect.model.grid import Grid
from shard_dialect.model.grid_refinement import Refinement
from shard_dialect.model.sharding import Sharding
from shard_dialect.planner.greedy import common_prefix

MOST_PLACES = 1 << 16
"""The most members of a group that permutes, since a permutation lists them all. Larger groups use
other steps, so that planning time does not grow with the number of devices."""


def may_permute(source: Sharding, target: Sharding, grid: Grid) -> bool:
    """Whether the permutation from `source` to `target` is short enough to be listed."""
    return grid.axes_size(_changed(source, target, grid)) <= MOST_PLACES


@lru_cache(maxsize=256)
def permute(source: Sharding, target: Sharding, grid: Grid) -> Permute:
    """The step from `source` to `target`, which have as many shards.

    It permutes along only the axes whose use changes. A device that already holds its target shard
    keeps it. Of several devices that hold a shard, the first that has not sent it yet sends it.
    Raises `ReshardError` if the numbers of shards differ.
    """
    changed = _changed(source, target, grid)
    both = tuple(axis for axis in source.partial if axis in target.partial)
    have, want = (_keys(each, both, changed, grid) for each in (source, target))
    permutation = [-1] * len(want)
    holders: dict[tuple[int, ...], deque[int]] = defaultdict(deque)
    left = []
    for member, (held, needed) in enumerate(zip(have, want, strict=True)):
        if held == needed:
            permutation[member] = member
        else:
            holders[held].append(member)
            left.append(member)
    for member in left:
        if not holders[want[member]]:
            raise ReshardError(f"{source} and {target} are not in as many shards")
        permutation[holders[want[member]].popleft()] = member
    sharding = target.split_axes, target.partial, target.reduction
    return Permute(changed, tuple(permutation), *sharding)


def leads_to(
    permutation: Sequence[int], axes: Axes, source: Sharding, target: Sharding, grid: Grid
) -> bool:
    """Whether the permutation along `axes` changes the sharding `source` into `target`."""
    if source.grid != target.grid or source.reduction != target.reduction:
        return False
    used = (*axes, *source.axes, *target.axes)
    finer = Refinement.of(grid, used)
    if finer is not None:
        axes, grid = finer.refined_axes(axes), finer.fine
        source, target = finer.refined(source), finer.refined(target)
    if not set(_changed(source, target, grid)) <= set(axes) or not _as_many(source, target, grid):
        return False
    # Unchanged axes are the major ones of each dimension on both sides, so all groups are alike.
    both = tuple(axis for axis in source.partial if axis in target.partial)
    have, want = (_keys(each, both, axes, grid) for each in (source, target))
    return all(have[member] == want[to] for member, to in enumerate(permutation))


def _as_many(source: Sharding, target: Sharding, grid: Grid) -> bool:
    both = zip(
        (*source.split_axes, source.partial), (*target.split_axes, target.partial), strict=True
    )
    return all(grid.axes_size(have) == grid.axes_size(want) for have, want in both)


def without_ones(axes: Axes, grid: Grid) -> Axes:
    """The axes of more than one device."""
    return tuple(axis for axis in axes if grid.axes_size((axis,)) > 1)


def _changed(source: Sharding, target: Sharding, grid: Grid) -> Axes:
    """The axes after the common major axes of each dimension, or partial on one side only."""
    found: set[Axis] = set(without_ones(source.partial, grid))
    found ^= set(without_ones(target.partial, grid))
    for before, after in zip(source.split_axes, target.split_axes, strict=True):
        have, want = without_ones(before, grid), without_ones(after, grid)
        kept = common_prefix(have, want)
        found |= {*have[kept:], *want[kept:]}
    return tuple(sorted(found, key=in_order))


def _keys(sharding: Sharding, both: Axes, axes: Axes, grid: Grid) -> list[tuple[int, ...]]:
    """The shard and the addend that each device of the first group along `axes` holds.

    Addends are numbered with the axes that stay partial as the major ones. An axis of `axes` is
    either an axis of the sharding or overlaps none of them.
    """
    partial = both + tuple(axis for axis in sharding.partial if axis not in both)
    columns = [_indices(run, axes, grid) for run in (*sharding.split_axes, partial)]
    return list(zip(*columns, strict=True))


def _indices(run: Axes, axes: Axes, grid: Grid) -> list[int]:
    """The index along `run` of each device of the first group along `axes`."""
    found = [0]
    for axis in axes:
        number = run.index(axis) if axis in run else None
        stride = 0 if number is None else grid.axes_size(run[number + 1 :])
        found = [index + at * stride for index in found for at in range(grid.axes_size((axis,)))]
    return found
