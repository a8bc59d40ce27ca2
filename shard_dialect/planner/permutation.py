"""Which device passes its shard to which, so that a tensor lies otherwise in as many shards."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Sequence
from functools import lru_cache

from shard_dialect.model.axis import Axes, Axis, in_order
from shard_dialect.model.collectives import Permute, ReshardError
from shard_dialect.model.grid import Grid
from shard_dialect.model.refinement import Refinement
from shard_dialect.model.sharding import Sharding
from shard_dialect.planner.greedy import common_prefix

MOST_PLACES = 1 << 16
"""In one permutation, which lists them. Where a permutation would have more, tensors go otherwise:
what is planned must not take longer the more devices there are."""


def may_permute(source: Sharding, target: Sharding, grid: Grid) -> bool:
    """Whether the permutation from `source` to `target` is short enough to be listed."""
    return grid.axes_size(_changed(source, target, grid)) <= MOST_PLACES


@lru_cache(maxsize=256)
def permute(source: Sharding, target: Sharding, grid: Grid) -> Permute:
    """The step from `source` to `target`, which cut a tensor into as many shards.

    Only the axes whose part changes take part. A device that holds already what it should keeps
    it; of several devices with a shard, the first that is not taken gives it.
    """
    changed = _changed(source, target, grid)
    both = tuple(axis for axis in source.partial if axis in target.partial)
    have, want = (_keys(each, both, changed, grid) for each in (source, target))
    permutation = [-1] * len(want)
    holders: dict[tuple[int, ...], deque[int]] = defaultdict(deque)
    left = []
    for place, (held, wanted) in enumerate(zip(have, want, strict=True)):
        if held == wanted:
            permutation[place] = place
        else:
            holders[held].append(place)
            left.append(place)
    for place in left:
        if not holders[want[place]]:
            raise ReshardError(f"{source} and {target} are not in as many shards")
        permutation[holders[want[place]].popleft()] = place
    lies = target.split_axes, target.partial, target.reduction
    return Permute(changed, tuple(permutation), *lies)


def leads_to(
    permutation: Sequence[int], axes: Axes, source: Sharding, target: Sharding, grid: Grid
) -> bool:
    """Whether shards that lie as `source` lie as `target` after the permutation along `axes`."""
    if source.grid != target.grid or source.reduction != target.reduction:
        return False
    used = (*axes, *source.axes, *target.axes)
    finer = Refinement.of(grid, used)
    if finer is not None:
        axes, grid = finer.refined_axes(axes), finer.fine
        source, target = finer.refined(source), finer.refined(target)
    if not set(_changed(source, target, grid)) <= set(axes) or not _as_many(source, target, grid):
        return False
    # Axes that take no part come first in each dimension on both sides, so all groups are alike.
    both = tuple(axis for axis in source.partial if axis in target.partial)
    have, want = (_keys(each, both, axes, grid) for each in (source, target))
    return all(have[place] == want[to] for place, to in enumerate(permutation))


def _as_many(source: Sharding, target: Sharding, grid: Grid) -> bool:
    both = zip(
        (*source.split_axes, source.partial), (*target.split_axes, target.partial), strict=True
    )
    return all(grid.axes_size(have) == grid.axes_size(want) for have, want in both)


def without_ones(axes: Axes, grid: Grid) -> Axes:
    """The axes that cut anything: those of more than one device."""
    return tuple(axis for axis in axes if grid.axes_size((axis,)) > 1)


def _changed(source: Sharding, target: Sharding, grid: Grid) -> Axes:
    """The axes past the common major part of each dimension, and partial on one side only."""
    found: set[Axis] = set(without_ones(source.partial, grid))
    found ^= set(without_ones(target.partial, grid))
    for run, wanted in zip(source.split_axes, target.split_axes, strict=True):
        have, want = without_ones(run, grid), without_ones(wanted, grid)
        kept = common_prefix(have, want)
        found |= {*have[kept:], *want[kept:]}
    return tuple(sorted(found, key=in_order))


def _keys(sharding: Sharding, both: Axes, axes: Axes, grid: Grid) -> list[tuple[int, ...]]:
    """Which shard each device holds of the first group along `axes`, and which addend.

    Addends are counted along the axes that stay partial first. `axes` are whole, or sub-axes of
    which none overlaps with those of the sharding but is one of them.
    """
    partial = both + tuple(axis for axis in sharding.partial if axis not in both)
    columns = [_indices(run, axes, grid) for run in (*sharding.split_axes, partial)]
    return list(zip(*columns, strict=True))


def _indices(run: Axes, axes: Axes, grid: Grid) -> list[int]:
    """The index along `run` of each device of the first group along `axes`."""
    found = [0]
    for axis in axes:
        place = run.index(axis) if axis in run else None
        step = 0 if place is None else grid.axes_size(run[place + 1 :])
        found = [index + at * step for index in found for at in range(grid.axes_size((axis,)))]
    return found
