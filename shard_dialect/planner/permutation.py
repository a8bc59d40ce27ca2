"""The permutation of devices that changes one sharding into another with as many shards."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Sequence
from functools import lru_cache

from shard_dialect.collectives import Permute, ReshardError
from shard_dialect.model.grid import Axes, Axis, Grid, in_order
from shard_dialect.model.grid_refinement import Refinement
from shard_dialect.model.sharding import Sharding, ShardingError
from shard_dialect.planner.layouts.greedy import common_prefix

MAX_POSITIONS = 1 << 16
"""The most members of a group that permutes, since a permutation lists them all. Larger groups use
other steps, so that planning time does not grow with the number of devices."""


def may_permute(source: Sharding, target: Sharding, grid: Grid) -> bool:
    """Whether the permutation from `source` to `target` is short enough to be listed."""
    return grid.axes_size(_changed(source, target, grid)) <= MAX_POSITIONS


@lru_cache(maxsize=256)
def permute(source: Sharding, target: Sharding, grid: Grid) -> Permute:
    """The step from `source` to `target`, which have as many shards.

    It permutes along only the axes whose use changes. A device that already holds its target shard
    keeps it. Of several devices that hold a shard, the first that has not sent it yet sends it.
    Raises `ReshardError` if the numbers of shards differ.
    """
    changed = _changed(source, target, grid)
    both = tuple(axis for axis in source.partial if axis in target.partial)
    source_keys, target_keys = (_shard_keys(each, both, changed, grid) for each in (source, target))
    permutation = [-1] * len(target_keys)
    # Devices that hold their target already take no part, even if others lack the same shard: they
    # would have to receive another copy for the one that they sent.
    holders: dict[tuple[int, ...], deque[int]] = defaultdict(deque)
    unmatched = []
    for member, (held, needed) in enumerate(zip(source_keys, target_keys, strict=True)):
        if held == needed:
            permutation[member] = member
        else:
            holders[held].append(member)
            unmatched.append(member)
    for member in unmatched:
        if not holders[target_keys[member]]:
            raise ReshardError(f"{source} and {target} are not in as many shards")
        permutation[holders[target_keys[member]].popleft()] = member
    sharding = target.split_axes, target.partial, target.reduction
    return Permute(changed, tuple(permutation), *sharding)


def permutes_into(
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
    if not set(_changed(source, target, grid)) <= set(axes) or not _have_as_many_shards(
        source, target, grid
    ):
        return False
    # Unchanged axes are the major ones of each dimension on both sides, so all groups are alike.
    both = tuple(axis for axis in source.partial if axis in target.partial)
    source_keys, target_keys = (_shard_keys(each, both, axes, grid) for each in (source, target))
    return all(source_keys[member] == target_keys[to] for member, to in enumerate(permutation))


def moved_shards(
    permutation: Sequence[int], axes: Axes, sharding: Sharding, grid: Grid
) -> dict[tuple[int, ...], tuple[int, ...]]:
    """For each shard, by its index in each dimension, another one whose elements it gets.

    The permutation along `axes` keeps the sharding. Raises `ShardingError` if devices that hold one
    shard get different ones, so that the result would have no value.

    >>> moved_shards((1, 2, 0), (0,), Sharding("g", ((0,), ())), Grid("g", (3,)))
    {(1, 0): (0, 0), (2, 0): (1, 0), (0, 0): (2, 0)}
    """
    finer = Refinement.of(grid, (*axes, *sharding.axes))
    if finer is not None:
        axes, grid, sharding = finer.refined_axes(axes), finer.fine, finer.refined(sharding)
    if set(axes) <= set(sharding.partial):
        return {}  # the addends of each shard change places
    if set(axes) & set(sharding.partial):
        raise ShardingError(f"permutes along axes {list(axes)}, over some of which it is partial")
    split = tuple(axis for each in sharding.split_axes for axis in each)
    rest = tuple(axis for axis in split if axis not in axes)
    if grid.axes_size((*axes, *rest)) > MAX_POSITIONS:
        raise ShardingError(f"permutes the shards of more than {MAX_POSITIONS} devices")
    columns = [_indices(each, (*axes, *rest), grid) for each in sharding.split_axes]
    shards = list(zip(*columns, strict=True))
    count = grid.axes_size(rest)
    moved: dict[tuple[int, ...], tuple[int, ...]] = {}
    for device, held in enumerate(shards):
        member, other = divmod(device, count)
        needed = shards[permutation[member] * count + other]
        if moved.setdefault(needed, held) != held:
            raise ShardingError(
                f"permutes along axes {list(axes)}, so that devices that hold one shard of "
                f"{sharding} get different ones"
            )
    return {needed: held for needed, held in moved.items() if needed != held}


def _have_as_many_shards(source: Sharding, target: Sharding, grid: Grid) -> bool:
    both = zip(
        (*source.split_axes, source.partial), (*target.split_axes, target.partial), strict=True
    )
    return all(
        grid.axes_size(source_axes) == grid.axes_size(target_axes)
        for source_axes, target_axes in both
    )


def without_size_one(axes: Axes, grid: Grid) -> Axes:
    """The axes of more than one device."""
    return tuple(axis for axis in axes if grid.axes_size((axis,)) > 1)


def _changed(source: Sharding, target: Sharding, grid: Grid) -> Axes:
    """The axes after the common major axes of each dimension, or partial on one side only."""
    changed: set[Axis] = set(without_size_one(source.partial, grid))
    changed ^= set(without_size_one(target.partial, grid))
    for before, after in zip(source.split_axes, target.split_axes, strict=True):
        source_axes, target_axes = without_size_one(before, grid), without_size_one(after, grid)
        kept = common_prefix(source_axes, target_axes)
        changed |= {*source_axes[kept:], *target_axes[kept:]}
    return tuple(sorted(changed, key=in_order))


def _shard_keys(sharding: Sharding, both: Axes, axes: Axes, grid: Grid) -> list[tuple[int, ...]]:
    """The shard and the addend that each device of the first group along `axes` holds.

    Addends are numbered with the axes that stay partial as the major ones. An axis of `axes` is
    either an axis of the sharding or overlaps none of them.
    """
    partial = both + tuple(axis for axis in sharding.partial if axis not in both)
    columns = [_indices(split, axes, grid) for split in (*sharding.split_axes, partial)]
    return list(zip(*columns, strict=True))


def _indices(split: Axes, axes: Axes, grid: Grid) -> list[int]:
    """The index along `split` of each device of the first group along `axes`."""
    indices = [0]
    for axis in axes:
        position = split.index(axis) if axis in split else None
        stride = 0 if position is None else grid.axes_size(split[position + 1 :])
        indices = [
            index + at * stride for index in indices for at in range(grid.axes_size((axis,)))
        ]
    return indices
