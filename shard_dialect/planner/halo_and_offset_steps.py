"""Steps between shardings that differ only in halos, or in where shards begin.

`halo_steps` changes halos:

    [[0], []]  ->  [[0], [], {halo = [[1, 2], []]}]                  update_halo
    [[0], [], {halo = [[1, 2], []]}]  ->  [[0], [], {halo = [[0, 2], []]}]     crop_halo

To enlarge the halo of a dimension, the steps drop it and exchange all of it again.

`ways_through_equal_shards` yields the ways between shardings whose shards begin at offsets:

    [[0], {offsets = [[0, 3, 4]]}]  ->  [[]]      a gather
    partial over 0  ->  [[0], {offsets = [[0, 3, 4]]}]      a reduce-scatter, and an exchange

The offsets of a dimension are dropped before the other steps, and set after them: by exchanging the
elements that change devices, or by gathering the dimension and slicing it. A dimension that has the
same shards before and after keeps them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import product

from shard_dialect.collectives import (
    AllGather,
    AllSlice,
    CropHalo,
    Exchange,
    ReshardError,
    Step,
    UpdateHalo,
)
from shard_dialect.model.grid import Axes, Grid
from shard_dialect.model.sharding import Shape, Sharding, Sizes


def halo_steps(source: Sharding, target: Sharding) -> tuple[Step, ...]:
    """The crops, and then the updates.

    Raises `ReshardError` where more than halos differs, or a partial tensor has halos.
    """
    if source.bare != target.bare:
        raise ReshardError(f"{source} and {target} differ in more than halos")
    if source.partial and (source.halos or target.halos):
        raise ReshardError(f"parts of a {source.reduction} have no halos, found {source}")
    crops: list[Step] = []
    updates: list[Step] = []
    for dim, axes in enumerate(source.split_axes):
        source_halo, target_halo = source.halo(dim), target.halo(dim)
        is_contained = target_halo[0] <= source_halo[0] and target_halo[1] <= source_halo[1]
        kept = target_halo if is_contained and source.fill == target.fill else (0, 0)
        # All crops come before all updates, so that no halo is exchanged that is dropped.
        if kept != source_halo:
            crops.append(CropHalo(dim, *kept))
        if kept != target_halo:
            updates.append(UpdateHalo(dim, axes, *target_halo, target.fill))
    return (*crops, *updates)


def sliced_with_halos(source: Sharding, target: Sharding) -> tuple[AllSlice, ...]:
    """The slices of dimensions that every device has all of, with the halos that they get.

    A slice of a whole tensor has its halo without an exchange.
    """
    used = {axis for axes in source.split_axes for axis in axes} | set(source.partial)
    return tuple(
        AllSlice(dim, axes, halo=target.halo(dim), fill=target.fill)
        for dim, axes in enumerate(target.split_axes)
        if any(target.halo(dim)) and not source.split_axes[dim] and not used & set(axes)
    )


@dataclass(frozen=True, slots=True)
class Way:
    """The steps before and after those from `first` to `last`, two shardings without offsets.

    A dimension that keeps its offsets is equally split in these, with a size in `shape` of which
    all shards are as large as its largest.
    """

    before: tuple[Step, ...]
    first: Sharding
    last: Sharding
    after: tuple[Step, ...]
    shape: Shape


def ways_through_equal_shards(
    source: Sharding, target: Sharding, shape: Shape, grid: Grid
) -> Iterator[Way]:
    """All ways that treat the dimensions alike."""
    for options in product((True, False), repeat=3):
        builder = _WayBuilder(source, target, shape, grid, *options)
        for dim in range(source.rank):
            builder.add(dim)
        yield builder.way()


class _WayBuilder:
    """Offsets are dropped, and set, `by_exchange` or else by a gather and a slice.

    Where the axes stay, the elements are exchanged before or after the other steps.
    """

    def __init__(
        self,
        source: Sharding,
        target: Sharding,
        shape: Shape,
        grid: Grid,
        drops_by_exchange: bool,
        sets_by_exchange: bool,
        is_before: bool,
    ) -> None:
        self.source, self.target, self.grid = source, target, grid
        self.drops_by_exchange, self.sets_by_exchange = drops_by_exchange, sets_by_exchange
        self.is_before = is_before
        self.sizes, self.shape = shape, list(shape)
        self.first, self.last = source, target
        self.before: list[Step] = []
        self.after: list[Callable[[Sharding], Step]] = []

    def add(self, dim: int) -> None:
        """Choose the steps for the offsets of one dimension."""
        offsets = _offsets(self.source, dim), _offsets(self.target, dim)
        if not any(offsets):
            return
        axes = self.source.split_axes[dim]
        if axes == self.target.split_axes[dim]:
            if offsets[0] == offsets[1]:
                self._keep(dim, self.source)
            elif self.is_before:
                self._drop(self._change(self.first, dim, axes, offsets[1]))
                self._keep(dim, self.target)
            else:
                self._set(dim, axes, *offsets)
                self._keep(dim, self.source)
            return
        if offsets[0]:
            if self.drops_by_exchange:
                self._drop(self._change(self.first, dim, axes, ()))
            else:
                self._drop(AllGather(dim, axes))
        if offsets[1]:
            axes = self.target.split_axes[dim]
            if self.sets_by_exchange:
                self._set(dim, axes, (), offsets[1])
            else:
                step = AllSlice(dim, axes, offsets[1])
                self.after.append(lambda now: step)
                self.last = self.last.with_dim(dim, ())

    def _drop(self, step: Step) -> None:
        self.before.append(step)
        self.first = step.after(self.first)

    def _set(self, dim: int, axes: Axes, before: Sizes, target: Sizes) -> None:
        self.after.append(lambda now: self._change(now, dim, axes, target))
        self.last = self.last.with_dim(dim, axes, before)

    def _keep(self, dim: int, sharding: Sharding) -> None:
        """Plan the other steps as if the shards of a dimension that keeps them were equal."""
        local = sharding.local_shape(self.sizes, self.grid)[dim]
        self.shape[dim] = local * self.grid.axes_size(sharding.split_axes[dim])

    def _change(self, now: Sharding, dim: int, axes: Axes, target: Sizes) -> Exchange:
        return Exchange.between(now, now.with_dim(dim, axes, target), self.sizes, self.grid)

    def way(self) -> Way:
        """The way, whose inner shardings have no offsets."""
        now, after = self.last, []
        for step_from in self.after:
            after.append(step_from(now))
            now = after[-1].after(now)
        first, last = (replace(each, offsets=()) for each in (self.first, self.last))
        return Way(tuple(self.before), first, last, tuple(after), tuple(self.shape))


def _offsets(sharding: Sharding, dim: int) -> Sizes:
    return sharding.offsets[dim] if sharding.offsets else ()
