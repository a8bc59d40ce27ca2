"""Which device passes its piece to which, so that a tensor lies otherwise in as many pieces."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from shard_dialect.model.axis import Axes, Axis, in_order
from shard_dialect.model.greedy import common_prefix
from shard_dialect.model.grid import Grid
from shard_dialect.model.sharding import Sharding
from shard_dialect.model.steps import Permute, ReshardError


def permute(source: Sharding, target: Sharding, grid: Grid) -> Permute:
    """The step from `source` to `target`, which cut a tensor into as many pieces.

    Only the axes whose part changes take part. A device that holds already what it should keeps
    it; of several devices with a piece, the first that is not taken gives it.
    """
    changed = _changed(source, target, grid)
    holders: dict[tuple[int, ...], list[int]] = defaultdict(list)
    group = grid.groups(changed)[0] if changed else (0,)
    both = tuple(axis for axis in source.partial if axis in target.partial)
    want = [_key(target, both, rank, grid) for rank in group]
    for place, rank in enumerate(group):
        holders[_key(source, both, rank, grid)].append(place)
    permutation = [-1] * len(group)
    left = []
    for place, key in enumerate(want):
        if place in holders[key]:
            holders[key].remove(place)
            permutation[place] = place
        else:
            left.append(place)
    for place in left:
        if not holders[want[place]]:
            raise ReshardError(f"{source} and {target} are not in as many pieces")
        permutation[holders[want[place]].pop(0)] = place
    lies = target.split_axes, target.partial, target.reduction
    return Permute(changed, tuple(permutation), *lies)


def leads_to(
    permutation: Sequence[int], axes: Axes, source: Sharding, target: Sharding, grid: Grid
) -> bool:
    """Whether pieces that lie as `source` lie as `target` after the permutation along `axes`."""
    both = tuple(axis for axis in source.partial if axis in target.partial)
    if source.grid != target.grid or source.reduction != target.reduction:
        return False
    if not set(_changed(source, target, grid)) <= set(axes) or not _as_many(source, target, grid):
        return False
    return all(
        _key(source, both, group[place], grid) == _key(target, both, group[to], grid)
        for group in grid.groups(axes)
        for place, to in enumerate(permutation)
    )


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


def _key(sharding: Sharding, both: Axes, rank: int, grid: Grid) -> tuple[int, ...]:
    """Which piece device `rank` holds, and which addend: first along the axes that stay partial."""
    partial = both + tuple(axis for axis in sharding.partial if axis not in both)
    return tuple(grid.index_along(rank, axes) for axes in (*sharding.split_axes, partial))
