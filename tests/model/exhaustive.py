"""The cheapest way from each sharding to each other one, by trying every step from every sharding.

Nothing of `shard_dialect.model`'s search is used: which steps there are is said here once more, in
terms of what each device holds, and permutations may come at any place and any number of times.
"""

from collections.abc import Iterator, Sequence
from fractions import Fraction
from functools import cache
from heapq import heappop, heappush
from itertools import chain, combinations, permutations

from shard_dialect.collectives import (
    AllGather,
    AllReduce,
    AllSlice,
    AllToAll,
    Mask,
    Permute,
    ReduceScatter,
    Step,
)
from shard_dialect.model import Grid, Sharding
from tests.model.interpreter import Axes, Shape, bytes_of, shard_size

Cost = tuple[Fraction, int]
"""Bytes, steps."""


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
    return chain.from_iterable(combinations(axes, count) for count in range(len(axes) + 1))


@cache
def shardings(grid: Grid, rank: int) -> tuple[Sharding, ...]:
    """Every sharding of a tensor of `rank` dimensions, those with partial axes too."""
    return tuple(
        Sharding(grid.name, split, partial)
        for used in subsets(range(grid.rank))
        for split in arrangements(used, rank)
        for partial in subsets([axis for axis in range(grid.rank) if axis not in used])
    )


def intervals(size: int, axes: Axes, grid: Grid) -> list[tuple[int, int]]:
    """What of a dimension each device holds."""
    shard = shard_size(size, axes, grid)
    places = [grid.index_along(rank, axes) for rank in range(grid.size)]
    return [(min(at * shard, size), min((at + 1) * shard, size)) for at in places]


@cache
def nests(size: int, outer: Axes, inner: Axes, grid: Grid) -> bool:
    """Whether each group along the axes that only `inner` has holds together an outer shard."""
    whole, parts = intervals(size, outer, grid), intervals(size, inner, grid)
    for group in grid.groups(inner[len(outer) :]):
        held = {index for rank in group for index in range(*parts[rank])}
        if any(held != set(range(*whole[rank])) for rank in group):
            return False
    return True


def steps_from(now: Sharding, grid: Grid) -> Iterator[Step]:
    free = tuple(axis for axis in range(grid.rank) if axis not in now.axes)
    for axes in subsets(now.partial):
        if axes:
            yield AllReduce(axes)
    for axes in subsets(free):
        if axes:
            yield Mask(axes)

    def ordered(axes: Axes) -> Iterator[Axes]:
        return chain.from_iterable(permutations(axes, n) for n in range(1, len(axes) + 1))

    for dim in range(now.rank):
        yield from (AllSlice(dim, axes) for axes in ordered(free))
        yield from (ReduceScatter(dim, axes) for axes in ordered(now.partial))
        yield from steps_of_dim(now, dim)


def steps_of_dim(now: Sharding, dim: int) -> Iterator[Step]:
    have = now.split_axes[dim]
    for start in range(len(have)):
        yield AllGather(dim, have[start:])
        for to in range(now.rank):
            if to != dim:
                yield AllToAll(dim, to, have[start:])


def may_follow(now: Sharding, after: Sharding, shape: Shape, grid: Grid) -> bool:
    """Whether shards nest in each other, in each dimension."""
    for size, one, other in zip(shape, now.split_axes, after.split_axes, strict=True):
        outer, inner = sorted((one, other), key=len)
        if inner[: len(outer)] != outer or not nests(size, outer, inner, grid):
            return False
    return True


def counts(sharding: Sharding, grid: Grid) -> list[int]:
    return [grid.axes_size(axes) for axes in (*sharding.split_axes, sharding.partial)]


@cache
def edges(shape: Shape, grid: Grid) -> dict[Sharding, list[tuple[Sharding, Fraction]]]:
    """For each sharding those that one step leads to, and the bytes that it moves."""
    every = shardings(grid, len(shape))
    found = {}
    for now in every:
        reached = [
            (step.after(now), bytes_of(step, now, shape, grid))
            for step in steps_from(now, grid)
            if may_follow(now, step.after(now), shape, grid)
        ]
        exchange = bytes_of(
            Permute((0,), (), now.split_axes, now.partial, now.reduction), now, shape, grid
        )
        reached += [
            (other, exchange)
            for other in every
            if other != now and counts(other, grid) == counts(now, grid)
        ]
        found[now] = reached
    return found


def costs(source: Sharding, target: Sharding, shape: Shape, grid: Grid) -> Cost:
    """The least that any sequence of steps from `source` to `target` costs."""
    uneven = tuple(
        any(size % grid.axes_size(end.split_axes[dim]) for end in (source, target))
        for dim, size in enumerate(shape)
    )
    return _costs(source, uneven, shape, grid)[target]


@cache
def _costs(
    source: Sharding, uneven: tuple[bool, ...], shape: Shape, grid: Grid
) -> dict[Sharding, Cost]:
    """To every sharding, dividing those dimensions evenly that are not `uneven`."""

    def may_lie(sharding: Sharding) -> bool:
        return all(
            odd or size % grid.axes_size(axes) == 0
            for odd, size, axes in zip(uneven, shape, sharding.split_axes, strict=True)
        )

    best: dict[Sharding, Cost] = {}
    queue: list[tuple[Cost, int, Sharding]] = [((Fraction(0), 0), 0, source)]
    pushed = 0
    while queue:
        cost, _, now = heappop(queue)
        if now in best:
            continue
        best[now] = cost
        for after, moved in edges(shape, grid)[now]:
            if after not in best and may_lie(after):
                pushed += 1
                heappush(queue, ((cost[0] + moved, cost[1] + 1), pushed, after))
    return best


def costs_between(
    source: Sharding,
    target: Sharding,
    shape: Shape,
    grids: tuple[Grid, Grid],
    same_devices: bool,
) -> Fraction:
    """The least bytes from `source` on the one grid to `target` on the other, passing once."""
    grid, other = grids
    uneven = tuple(
        bool(size % grid.axes_size(have) or size % other.axes_size(want))
        for size, have, want in zip(shape, source.split_axes, target.split_axes, strict=True)
    )
    return min(
        moved + _costs(enters, uneven, shape, other)[target][0]
        for enters, moved in _entries(source, uneven, shape, grids, same_devices).items()
        if target in _costs(enters, uneven, shape, other)
    )


@cache
def _entries(
    source: Sharding,
    uneven: tuple[bool, ...],
    shape: Shape,
    grids: tuple[Grid, Grid],
    same_devices: bool,
) -> dict[Sharding, Fraction]:
    """The shardings on the other grid that one passage leads to, and the least bytes for it."""
    reached = _costs(source, uneven, shape, grids[0])
    found: dict[Sharding, Fraction] = {}
    for leaves, enters, passes in _passages(shape, grids, same_devices):
        if leaves in reached:
            moved = reached[leaves][0] + passes
            found[enters] = min(found.get(enters, moved), moved)
    return found


@cache
def _passages(
    shape: Shape, grids: tuple[Grid, Grid], same_devices: bool
) -> list[tuple[Sharding, Sharding, Fraction]]:
    found = []
    for leaves in shardings(grids[0], len(shape)):
        for enters in shardings(grids[1], len(shape)):
            if counts(leaves, grids[0]) == counts(enters, grids[1]):
                exchange = Permute((0,), (), leaves.split_axes, leaves.partial, leaves.reduction)
                moved = bytes_of(exchange, leaves, shape, grids[0])
                same = same_devices and held(leaves, shape, grids[0]) == held(
                    enters, shape, grids[1]
                )
                found.append((leaves, enters, Fraction(0) if same else moved))
    return found


def held(sharding: Sharding, shape: Shape, grid: Grid) -> object:
    """What of each dimension each device holds, and which devices have an addend in common."""
    parts = [
        intervals(size, axes, grid) for size, axes in zip(shape, sharding.split_axes, strict=True)
    ]
    shards = {rank: tuple(part[rank] for part in parts) for rank in range(grid.size)}
    addends: dict[int, set[int]] = {}
    for rank in range(grid.size):
        addends.setdefault(grid.index_along(rank, sharding.partial), set()).add(rank)
    return shards, set(map(frozenset, addends.values()))
