"""What the steps of a plan do to arrays, the same for every kind of device.

The code has packed what it gives: an exchange is of whole rows along the first dimension. Devices
differ in the exchange only: threads, MPI, torch.distributed.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np

from shard_dialect.ir.local import LocalStep
from shard_dialect.model import (
    AllGather,
    AllReduce,
    AllToAll,
    Axes,
    Grid,
    Permute,
    ReduceScatter,
    UpdateHalo,
)
from shard_dialect.model.rooted import Broadcast, Gather, Index, Reduce, Scatter, Shift
from shard_dialect.runtime.arrays import Array
from shard_dialect.runtime.group import Group
from shard_dialect.runtime.lowered import Site


class Member(ABC):
    """One device, and the groups that it has talked in so far.

    What is started is done by a thread of its own, in the order of the program; all devices run the
    same program, so they meet in the same order.
    """

    def __init__(self, rank: int) -> None:
        self.rank = rank
        self._groups: dict[tuple[Grid, Axes], Group] = {}
        self._speaker: ThreadPoolExecutor | None = None
        self._started: dict[int, Future[None]] = {}

    def perform(self, site: Site, source: Array, target: Array) -> None:
        """Answer the compiled code: do `site`'s step with this device's group, or a phase of it."""
        where = target.ctypes.data
        if site.phase == "done":
            if where in self._started:
                self._started.pop(where).result()
        elif site.phase == "start":
            self._started[where] = self._speak(site, source, target)
        elif self._speaker is not None:
            self._speak(site, source, target).result()
        else:
            self._perform(site, source, target)

    def rest(self) -> None:
        """At the end of a run: wait for what was started, and let the thread go."""
        if self._speaker is not None:
            self._speaker.shutdown()
            self._speaker = None

    def _speak(self, site: Site, source: Array, target: Array) -> Future[None]:
        if self._speaker is None:
            self._speaker = ThreadPoolExecutor(1, f"device {self.rank}")
        return self._speaker.submit(self._perform, site, source, target)

    def _perform(self, site: Site, source: Array, target: Array) -> None:
        perform(site.step, site.grid, self.group(site), source, target)

    def group(self, site: Site) -> Group:
        """The group that does a step."""
        key = (site.grid, site.step.axes)
        if key not in self._groups:
            self._groups[key] = self.join(*key)
        return self._groups[key]

    @abstractmethod
    def join(self, grid: Grid, axes: Axes) -> Group:
        """This device's group along `axes`."""


def perform(step: LocalStep, grid: Grid, group: Group, source: Array, target: Array) -> None:
    """Do one step along the first dimension of this device's `source`; `target` gets the result."""
    _PERFORM[type(step)](step, grid, group, source, target)


def _permute(step: Permute, group: Group, source: Array, target: Array) -> None:
    to, origin = step.permutation[group.index], step.permutation.index(group.index)
    group.permute(source, target, to, origin)


def _update_halo(step: UpdateHalo, group: Group, source: Array, array: Array) -> None:
    """The ends of our own piece go to the devices in whose halos they belong, near ones first."""
    array[...] = source
    low, high = step.low, step.high
    end = len(array) - high
    size = end - low
    for distance in range(1, -(-max(low, high) // size) + 1):
        before, after = _at(group, -distance), _at(group, distance)
        past = (distance - 1) * size  # what nearer devices have of the halo
        down, up = (min(max(halo - past, 0), size) for halo in (low, high))
        if down:
            halo = array[low - past - down : low - past]
            group.permute(array[end - down : end], halo, after, before)
        if up:
            halo = array[end + past : end + past + up]
            group.permute(array[low : low + up], halo, before, after)


def _at(group: Group, distance: int) -> int | None:
    place = group.index + distance
    return place if 0 <= place < group.size else None


def _place(root: Index, step: LocalStep, grid: Grid) -> int:
    """The place in the group of the member with an index along each axis."""
    sizes = [grid.axes_size((axis,)) for axis in step.axes]
    return int(np.ravel_multi_index(root, sizes)) if root else 0


def _shift(step: Shift, grid: Grid, group: Group, source: Array, target: Array) -> None:
    """What no one gives is zeros."""
    sizes = [grid.axes_size((axis,)) for axis in step.axes]
    here = tuple(int(each) for each in np.unravel_index(group.index, tuple(sizes)))
    to, origin = (step.moved(here, sizes, by) for by in (step.offset, -step.offset))
    target[...] = 0
    places = [None if each is None else _place(each, step, grid) for each in (to, origin)]
    group.permute(source, target, *places)


_PERFORM: dict[type, Callable[..., None]] = {
    AllGather: lambda _, __, group, *arrays: group.all_gather(*arrays),
    AllReduce: lambda step, _, group, *arrays: group.all_reduce(*arrays, step.reduction),
    ReduceScatter: lambda step, _, group, *arrays: group.reduce_scatter(*arrays, step.reduction),
    AllToAll: lambda _, __, group, *arrays: group.all_to_all(*arrays),
    Permute: lambda step, _, group, *arrays: _permute(step, group, *arrays),
    UpdateHalo: lambda step, _, group, *arrays: _update_halo(step, group, *arrays),
    Shift: _shift,
    Broadcast: lambda step, grid, group, *arrays: group.broadcast(
        *arrays, _place(step.root, step, grid)
    ),
    Gather: lambda step, grid, group, *arrays: group.gather(*arrays, _place(step.root, step, grid)),
    Scatter: lambda step, grid, group, *arrays: group.scatter(
        *arrays, _place(step.root, step, grid)
    ),
    Reduce: lambda step, grid, group, *arrays: group.reduce(
        *arrays, _place(step.root, step, grid), step.reduction
    ),
}
