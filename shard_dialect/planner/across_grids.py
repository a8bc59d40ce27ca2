"""From a sharding on one grid to a sharding on another one of as many devices.

    @g(4) [[0], []]  ->  @h(2x2) [[1], []]     transfer to [[1], []] of @h
    @g(4) [[0], []]  ->  @h(2x2) [[], []]      all_gather dim 0 axes [0]; the same on @h

A way on the first grid, one passage, and a way on the second. Grids may be the same devices, in
another shape or order (`Grid.device_ids`), or others (of two stages of a pipeline, say). Where each
device has already what the second grid is to find there, the passage moves nothing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from math import gcd, prod
from typing import Literal

from shard_dialect.model.axis import SubAxis, whole
from shard_dialect.model.collectives import Mask, ReshardError, Step
from shard_dialect.model.grid import Grid
from shard_dialect.model.refinement import Refinement
from shard_dialect.model.sharding import Shape, Sharding
from shard_dialect.planner.greedy import greedy
from shard_dialect.planner.layout import Layout, Problem
from shard_dialect.planner.reshard_plan import EXACT, Plan, bytes_moved, named
from shard_dialect.planner.search import (
    Meeting,
    Path,
    SearchTooLong,
    cheapest_with_permute,
    cheapest_without_move,
)

Kind = Literal["same", "collective_permute", "send_recv"]


@dataclass(frozen=True, slots=True)
class Transfer:
    """The shard of each device of one grid goes to one of another: of rank i to `places[i]`.

    There the tensor lies as `target`, in shards as large as before.
    """

    places: tuple[int, ...]
    target: Sharding
    kind: Kind
    """`same` where no shard leaves its device."""

    def bytes_moved(self, operand_bytes: int) -> int:
        return 0 if self.kind == "same" else operand_bytes

    def __str__(self) -> str:
        what = "the same as" if self.kind == "same" else f"{self.kind} to"
        return f"{what} {self.target} on @{self.target.grid}"


@dataclass(frozen=True, slots=True)
class Passage:
    """What is done on the first grid, how the tensor passes, and what is done on the second."""

    before: Plan
    transfer: Transfer
    after: Plan
    bytes_moved: int
    exact: bool = True

    def __str__(self) -> str:
        return "; ".join(map(str, (*self.before.steps, self.transfer, *self.after.steps)))


@lru_cache(maxsize=65536)
def plan_between(
    source: Sharding,
    target: Sharding,
    shape: Shape,
    itemsize: int,
    grid: Grid,
    target_grid: Grid,
    same_devices: bool = True,
    limit: int = EXACT,
) -> Passage:
    """The cheapest steps from `source` on `grid` to `target` on `target_grid`, with one passage.

    `same_devices` says that device i of the one grid is device i of the other, else no device is
    in both. A search looks at no more than `limit` layouts.
    Raises `ReshardError` for grids of different sizes, and for halos and offsets.
    """
    if grid.size != target_grid.size:
        raise ReshardError(
            f"cannot reshard from {grid} to {target_grid}: expected as many devices, found "
            f"{grid.size} and {target_grid.size}"
        )
    for sharding in (source, target):
        if sharding.halos or sharding.offsets:
            raise ReshardError(
                f"cannot reshard from {source} to {target}: shards with halos or offsets are not "
                "resharded yet"
            )
    coarse = (_on_whole_axes(source, grid), _on_whole_axes(target, target_grid))
    finest = (_finest(*coarse[0]), _finest(*coarse[1]))
    for number, ends in enumerate((finest, coarse)):
        found = _Passing(*ends, shape, itemsize, same_devices).search(limit)
        if found is not None:
            return replace(found, exact=number == 0)
    return _Passing(*coarse, shape, itemsize, same_devices).over_the_whole()


_End = tuple[Sharding, Grid]


def _on_whole_axes(sharding: Sharding, grid: Grid) -> _End:
    used = [axis for axis in sharding.axes if isinstance(axis, SubAxis)]
    return _refined(Refinement.of(grid, used), sharding, grid)


def _finest(sharding: Sharding, grid: Grid) -> _End:
    return _refined(Refinement.finest(grid), sharding, grid)


def _refined(found: Refinement | None, sharding: Sharding, grid: Grid) -> _End:
    return (sharding, grid) if found is None else (found.refined(sharding), found.fine)


class _Passing:
    """One tensor, its ends on whole axes of their grids."""

    def __init__(
        self, source: _End, target: _End, shape: Shape, itemsize: int, same_devices: bool
    ) -> None:
        self.source, self.grid = source
        self.target, self.target_grid = target
        self.shape, self.itemsize, self.same_devices = shape, itemsize, same_devices
        is_mixed = self.source.partial and self.target.partial
        self.masks_last = bool(is_mixed) and self.source.reduction != self.target.reduction
        self.end = self.target.with_partial(()) if self.masks_last else self.target
        self.kind = (self.source if self.source.partial else self.end).reduction
        uneven = tuple(
            bool(size % self.grid.axes_size(have) or size % self.target_grid.axes_size(want))
            for size, have, want in zip(
                shape, self.source.split_axes, self.target.split_axes, strict=True
            )
        )
        small = tuple(
            size if odd else gcd(size, self.grid.size)
            for size, odd in zip(shape, uneven, strict=True)
        )
        nothing: Layout = (((),) * len(shape), ())
        sizes = tuple(self.grid.axes_size((axis,)) for axis in range(self.grid.rank))
        others = tuple(self.target_grid.axes_size((axis,)) for axis in range(self.target_grid.rank))
        self.here = Problem(sizes, small, uneven, _layout(self.source), nothing)
        self.there = Problem(others, small, uneven, nothing, _layout(self.end))

    def search(self, limit: int) -> Passage | None:
        try:
            same = None
            if self.same_devices:
                same = cheapest_without_move(
                    self.here,
                    self.there,
                    lambda layout: _held(layout, self.grid),
                    lambda layout: _held(layout, self.target_grid),
                    limit,
                )
            most = None if same is None else same.cost[0]
            moving = cheapest_with_permute(self.here, self.there, most, limit)
        except SearchTooLong:
            return None
        if same is not None and (moving is None or same.cost <= moving.cost):
            return self._passage(same, is_same=True)
        assert moving is not None, "a tensor whole on every device passes"
        return self._passage(moving, is_same=False)

    def over_the_whole(self) -> Passage:
        """Gather all of it, pass, and slice: right, on any grids."""
        nothing = self.here.target
        ways = (Path(tuple(greedy(each)), (0, 0, 0)) for each in (self.here, self.there))
        to, away = ways
        meeting = Meeting(to, nothing, nothing, away, (0, 0, 0))
        return replace(self._passage(meeting, is_same=self.same_devices), exact=False)

    def _passage(self, meeting: Meeting, is_same: bool) -> Passage:
        before, leaves = self._steps(meeting.to.steps, self.source, self.grid)
        enters = _sharding(meeting.target, self.target_grid)
        if enters.partial:
            enters = enters.with_partial(enters.partial, self.kind)
        places = self._places(leaves, enters)
        elsewhere: Kind = "collective_permute" if self.same_devices else "send_recv"
        transfer = Transfer(places, enters, "same" if is_same else elsewhere)
        after, ends = self._steps(meeting.away.steps, enters, self.target_grid)
        if self.masks_last:
            after += (Mask(self.target.partial, self.target.reduction),)
            ends = after[-1].after(ends)
        assert ends == self.target, f"the plan to {self.target} ends at {ends}"
        plans = [
            Plan(steps, bytes_moved(steps, begin, self.shape, self.itemsize, grid), grid)
            for steps, begin, grid in (
                (before, self.source, self.grid),
                (after, enters, self.target_grid),
            )
        ]
        operand = prod(leaves.local_shape(self.shape, self.grid)) * self.itemsize
        moved = plans[0].bytes_moved + transfer.bytes_moved(operand) + plans[1].bytes_moved
        return Passage(plans[0], transfer, plans[1], moved)

    def _steps(
        self, steps: Sequence[Step], now: Sharding, grid: Grid
    ) -> tuple[tuple[Step, ...], Sharding]:
        made: list[Step] = []
        for each in steps:
            made.append(named(each, now, self.kind, tuple(range(grid.rank)), grid))
            now = made[-1].after(now)
        return tuple(made), now

    def _places(self, source: Sharding, target: Sharding) -> tuple[int, ...]:
        """Where the shards go: a device that has already what it is to have keeps it."""
        wanted: dict[object, list[int]] = defaultdict(list)
        for rank, shard in enumerate(_shards(_layout(target), self.target_grid)):
            wanted[shard].append(rank)
        have = _shards(_layout(source), self.grid)
        rank_of = {_device(rank, self.target_grid): rank for rank in range(self.grid.size)}
        places = [-1] * self.grid.size
        if self.same_devices:
            for rank, shard in enumerate(have):
                own = rank_of[_device(rank, self.grid)]
                if own in wanted[shard]:
                    places[rank] = own
                    wanted[shard].remove(own)
        for rank, shard in enumerate(have):
            if places[rank] < 0:
                places[rank] = wanted[shard].pop(0)
        return tuple(places)


def _layout(sharding: Sharding) -> Layout:
    split = tuple(tuple(map(whole, run)) for run in sharding.split_axes)
    return split, tuple(map(whole, sharding.partial))


def _sharding(layout: Layout, grid: Grid) -> Sharding:
    return Sharding(grid.name, layout[0], layout[1])


def _device(rank: int, grid: Grid) -> int:
    return grid.device_ids[rank] if grid.device_ids else rank


def _shards(layout: Layout, grid: Grid) -> list[tuple[int, ...]]:
    """Which shard, and which addend, each rank has; addends by the first device that has them."""
    first: dict[int, int] = {}
    order = sorted(range(grid.size), key=lambda rank: _device(rank, grid))
    for rank in order:
        first.setdefault(grid.index_along(rank, layout[1]), len(first))
    return [
        (
            *(grid.index_along(rank, run) for run in layout[0]),
            first[grid.index_along(rank, layout[1])],
        )
        for rank in range(grid.size)
    ]


def _held(layout: Layout, grid: Grid) -> object:
    """How many shards there are, and what of them each device holds, in the devices' order."""
    shards = _shards(layout, grid)
    order = sorted(range(grid.size), key=lambda rank: _device(rank, grid))
    counts = tuple(grid.axes_size(run) for run in (*layout[0], layout[1]))
    return counts, tuple(shards[rank] for rank in order)
