"""Reshards from one grid to another of the same size.

    @g(4) [[0], []]  ->  @h(2x2) [[1], []]     transfer to [[1], []] of @h
    @g(4) [[0], []]  ->  @h(2x2) [[], []]      all_gather dim 0 axes [0]; the same on @h

The plan is steps on the first grid, one transfer, and steps on the second grid. The grids may have
the same devices, in another shape or order (`Grid.device_ids`), or different devices (of two stages
of a pipeline, say). The transfer moves nothing where each device already holds its shard on the
second grid.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from math import gcd, prod
from typing import Literal

from shard_dialect.collectives import Mask, Permute, ReshardError, Step
from shard_dialect.errors import as_symbol
from shard_dialect.model.grid import Grid, SubAxis, full_axis
from shard_dialect.model.grid_refinement import Refinement
from shard_dialect.model.sharding import Shape, Sharding
from shard_dialect.planner.layouts.greedy import greedy
from shard_dialect.planner.layouts.layout import Layout, Problem
from shard_dialect.planner.layouts.search import (
    Path,
    SearchTooLong,
    SplitPath,
    cheapest_with_permute,
    cheapest_without_move,
)
from shard_dialect.planner.permutation import MAX_POSITIONS
from shard_dialect.planner.prices import BYTES, Prices, bytes_moved
from shard_dialect.planner.reshard_plan import EXACT, Plan, plan, step_on_grid

Kind = Literal["same", "collective_permute", "send_recv"]


@dataclass(frozen=True, slots=True)
class Transfer:
    """Device i of one grid sends its shard to device `destinations[i]` of another grid.

    There the sharding is `target`. Its shards are as large as before.
    """

    destinations: tuple[int, ...]
    target: Sharding
    kind: Kind
    """It is `same` where no shard leaves its device."""

    def bytes_moved(self, operand_bytes: int) -> int:
        """The bytes that one device sends, for a shard of `operand_bytes` bytes."""
        return 0 if self.kind == "same" else operand_bytes

    def __str__(self) -> str:
        what = "the same as" if self.kind == "same" else f"{self.kind} to"
        return f"{what} {self.target} on {as_symbol(self.target.grid)}"


@dataclass(frozen=True, slots=True)
class CrossGridPlan:
    """The plan on the first grid, the transfer, and the plan on the second grid.

    `bytes_moved` is per device. `exact` tells whether no cheaper plan exists.
    """

    before: Plan
    transfer: Transfer
    after: Plan
    bytes_moved: int
    exact: bool = True

    def __str__(self) -> str:
        return "; ".join(map(str, (*self.before.steps, self.transfer, *self.after.steps)))


@lru_cache(maxsize=65536)
def plan_across_grids(
    source: Sharding,
    target: Sharding,
    shape: Shape,
    itemsize: int,
    grid: Grid,
    target_grid: Grid,
    same_devices: bool = True,
    limit: int = EXACT,
    sub_axes: bool = True,
) -> CrossGridPlan:
    """The cheapest steps from `source` on `grid` to `target` on `target_grid`, with one transfer.

    With `same_devices`, device i of one grid is device i of the other; else no device is in both.
    `shape` is the global shape, `itemsize` is in bytes. A search visits at most `limit` layouts.
    Without `sub_axes` the steps use no finer axes than the shardings do. Raises `ReshardError` for
    grids of different sizes, and for halos and offsets.
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
    coarse = (_on_full_axes(source, grid), _on_full_axes(target, target_grid))
    finest = (_finest(*coarse[0]), _finest(*coarse[1])) if sub_axes else coarse
    # A plan on the finest axes is the cheapest, but its search may take too long; then the search
    # on full axes; then, without one, the way through the unsharded tensor.
    for number, ends in enumerate((finest, coarse)):
        plan = _CrossGridSearch(*ends, shape, itemsize, same_devices).search(limit)
        if plan is not None:
            return replace(plan, exact=number == 0)
    return _CrossGridSearch(*coarse, shape, itemsize, same_devices).through_unsharded()


@lru_cache(maxsize=65536)
def plan_between(
    source: Sharding,
    target: Sharding,
    shape: Shape,
    itemsize: int,
    grid: Grid,
    target_grid: Grid,
    prices: Prices = BYTES,
) -> Plan:
    """The cheapest steps from `source` on `grid` to `target` on `target_grid`, of the same devices.

    The steps use no sub-axes; a `Permute` leads from one grid to the other. `shape` is the global
    shape, `itemsize` is in bytes. From one grid to another, a plan for time is one for bytes, with
    its time. Raises `ReshardError` where no plan is known.
    """
    if source.is_replicated:
        source = replace(source, grid=target.grid)
        return plan(source, target, shape, itemsize, target_grid, False, prices=prices)
    if grid == target_grid or target.is_replicated:
        target = replace(target, grid=source.grid)
        return plan(source, target, shape, itemsize, grid, False, prices=prices)
    every = tuple(range(grid.rank))
    is_plain = not any((source.halos, source.offsets, target.halos, target.offsets))
    if not is_plain or grid.size > MAX_POSITIONS:
        through = Sharding.replicated(grid.name, len(shape))
        first = plan(source, through, shape, itemsize, grid, False, prices=prices)
        last = plan_between(through, target, shape, itemsize, grid, target_grid, prices)
        same = Permute(every, tuple(range(grid.size)), through.split_axes, grid=target.grid)
        steps = (*first.steps, same, *last.steps)
        time = first.cost + last.cost if prices.is_time else None
        return Plan(steps, first.bytes_moved + last.bytes_moved, grid, False, time)
    across = plan_across_grids(source, target, shape, itemsize, grid, target_grid, sub_axes=False)
    transfer = across.transfer
    to = transfer.target
    positions = {device: position for position, device in enumerate(_devices(grid))}
    permutation = tuple(positions[transfer.destinations[device]] for device in _devices(grid))
    permute = Permute(every, permutation, to.split_axes, to.partial, to.reduction, to.grid)
    steps = (*across.before.steps, permute, *across.after.steps)
    if not prices.is_time:
        return Plan(steps, across.bytes_moved, grid, across.exact)
    time = prices.steps(steps, source, shape, itemsize, grid, target_grid)
    return Plan(steps, across.bytes_moved, grid, False, time)


def permutes_across(
    permutation: Sequence[int], source: Sharding, target: Sharding, grid: Grid, target_grid: Grid
) -> bool:
    """Whether the permutation of all devices of `grid` leads from `source` to `target`."""
    if source.reduction != target.reduction or grid.size != target_grid.size:
        return False
    (source, grid), (target, target_grid) = (
        _on_full_axes(source, grid),
        _on_full_axes(target, target_grid),
    )
    devices = _devices(grid)
    held, needed = _shards(_layout(source), grid), _shards(_layout(target), target_grid)
    addends: dict[int, int] = {}
    for position, to in enumerate(permutation):
        *shard, addend = held[devices[position]]
        *shard_there, addend_there = needed[devices[to]]
        if shard != shard_there or addends.setdefault(addend, addend_there) != addend_there:
            return False
    return len(set(addends.values())) == len(addends)


def _devices(grid: Grid) -> Sequence[int]:
    """The ranks of the devices by their position in the grid."""
    return grid.device_ids or range(grid.size)


_End = tuple[Sharding, Grid]
"""The source or the target of a reshard."""


def _on_full_axes(sharding: Sharding, grid: Grid) -> _End:
    used = [axis for axis in sharding.axes if isinstance(axis, SubAxis)]
    return _refined(Refinement.of(grid, used), sharding, grid)


def _finest(sharding: Sharding, grid: Grid) -> _End:
    return _refined(Refinement.finest(grid), sharding, grid)


def _refined(refinement: Refinement | None, sharding: Sharding, grid: Grid) -> _End:
    return (
        (sharding, grid) if refinement is None else (refinement.refined(sharding), refinement.fine)
    )


class _CrossGridSearch:
    """The reshard of one tensor whose source and target use full axes of their grids."""

    def __init__(
        self, source: _End, target: _End, shape: Shape, itemsize: int, same_devices: bool
    ) -> None:
        self.source, self.grid = source
        self.target, self.target_grid = target
        self.shape, self.itemsize, self.same_devices = shape, itemsize, same_devices
        is_mixed = self.source.partial and self.target.partial
        # No step leads from a partial sum to a partial maximum: the plan leads to the reduced
        # tensor, and a mask, which is free, makes it partial again.
        self.masks_last = bool(is_mixed) and self.source.reduction != self.target.reduction
        self.end = self.target.with_partial(()) if self.masks_last else self.target
        self.kind = (self.source if self.source.partial else self.end).reduction
        uneven = tuple(
            bool(
                size % self.grid.axes_size(source_axes)
                or size % self.target_grid.axes_size(target_axes)
            )
            for size, source_axes, target_axes in zip(
                shape, self.source.split_axes, self.target.split_axes, strict=True
            )
        )
        # Of an even dimension only the factors that devices can split matter, so that tensors of
        # many sizes have one problem.
        reduced_shape = tuple(
            size if is_uneven else gcd(size, self.grid.size)
            for size, is_uneven in zip(shape, uneven, strict=True)
        )
        unsharded: Layout = (((),) * len(shape), ())
        sizes = tuple(self.grid.axes_size((axis,)) for axis in range(self.grid.rank))
        target_sizes = tuple(
            self.target_grid.axes_size((axis,)) for axis in range(self.target_grid.rank)
        )
        self.first = Problem(sizes, reduced_shape, uneven, _layout(self.source), unsharded)
        self.second = Problem(target_sizes, reduced_shape, uneven, unsharded, _layout(self.end))

    def search(self, limit: int) -> CrossGridPlan | None:
        try:
            same = None
            if self.same_devices:
                same = cheapest_without_move(
                    self.first,
                    self.second,
                    lambda layout: _held(layout, self.grid),
                    lambda layout: _held(layout, self.target_grid),
                    limit,
                )
            most = None if same is None else same.cost[0]
            moving = cheapest_with_permute(self.first, self.second, most, limit)
        except SearchTooLong:
            return None
        if same is not None and (moving is None or same.cost <= moving.cost):
            return self._plan(same, is_same=True)
        assert moving is not None, "an unsharded tensor can always be transferred"
        return self._plan(moving, is_same=False)

    def through_unsharded(self) -> CrossGridPlan:
        """Gather the tensor, transfer it, and slice it: correct on any grids."""
        unsharded = self.first.target
        before, after = (Path(tuple(greedy(each)), (0, 0, 0)) for each in (self.first, self.second))
        path = SplitPath(before, unsharded, unsharded, after, (0, 0, 0))
        return replace(self._plan(path, is_same=self.same_devices), exact=False)

    def _plan(self, path: SplitPath, is_same: bool) -> CrossGridPlan:
        before, sent = self._steps(path.before.steps, self.source, self.grid)
        received = _sharding(path.target, self.target_grid)
        if received.partial:
            received = received.with_partial(received.partial, self.kind)
        destinations = self._destinations(sent, received)
        kind: Kind = "collective_permute" if self.same_devices else "send_recv"
        transfer = Transfer(destinations, received, "same" if is_same else kind)
        after, ends = self._steps(path.after.steps, received, self.target_grid)
        if self.masks_last:
            after += (Mask(self.target.partial, self.target.reduction),)
            ends = after[-1].after(ends)
        assert ends == self.target, f"the plan to {self.target} ends at {ends}"
        plans = [
            Plan(steps, bytes_moved(steps, begin, self.shape, self.itemsize, grid), grid)
            for steps, begin, grid in (
                (before, self.source, self.grid),
                (after, received, self.target_grid),
            )
        ]
        operand = prod(sent.local_shape(self.shape, self.grid)) * self.itemsize
        total_bytes = plans[0].bytes_moved + transfer.bytes_moved(operand) + plans[1].bytes_moved
        return CrossGridPlan(plans[0], transfer, plans[1], total_bytes)

    def _steps(
        self, steps: Sequence[Step], sharding: Sharding, grid: Grid
    ) -> tuple[tuple[Step, ...], Sharding]:
        named_steps: list[Step] = []
        for each in steps:
            named_steps.append(
                step_on_grid(each, sharding, self.kind, tuple(range(grid.rank)), grid)
            )
            sharding = named_steps[-1].after(sharding)
        return tuple(named_steps), sharding

    def _destinations(self, source: Sharding, target: Sharding) -> tuple[int, ...]:
        """The rank that each shard goes to; a device that already holds its target keeps it."""
        receivers: dict[object, list[int]] = defaultdict(list)
        for rank, shard in enumerate(_shards(_layout(target), self.target_grid)):
            receivers[shard].append(rank)
        shards = _shards(_layout(source), self.grid)
        destinations = [-1] * self.grid.size
        # Devices that hold their shard already are matched first, so that none of them sends it
        # away.
        if self.same_devices:
            for rank, shard in enumerate(shards):
                if rank in receivers[shard]:
                    destinations[rank] = rank
                    receivers[shard].remove(rank)
        for rank, shard in enumerate(shards):
            if destinations[rank] < 0:
                destinations[rank] = receivers[shard].pop(0)
        return tuple(destinations)


def _layout(sharding: Sharding) -> Layout:
    split = tuple(tuple(map(full_axis, axes)) for axes in sharding.split_axes)
    return split, tuple(map(full_axis, sharding.partial))


def _sharding(layout: Layout, grid: Grid) -> Sharding:
    return Sharding(grid.name, layout[0], layout[1])


def _shards(layout: Layout, grid: Grid) -> list[tuple[int, ...]]:
    """The shard and the addend that each device holds, addends numbered by their first device."""
    first: dict[int, int] = {}
    for rank in range(grid.size):
        first.setdefault(grid.index_along(rank, layout[1]), len(first))
    return [
        (
            *(grid.index_along(rank, axes) for axes in layout[0]),
            first[grid.index_along(rank, layout[1])],
        )
        for rank in range(grid.size)
    ]


def _held(layout: Layout, grid: Grid) -> object:
    """The number of shards in each dimension, and the shard of each device."""
    counts = tuple(grid.axes_size(axes) for axes in (*layout[0], layout[1]))
    return counts, tuple(_shards(layout, grid))
