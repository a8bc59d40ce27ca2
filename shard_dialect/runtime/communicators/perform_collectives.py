"""Perform the steps of a reshard plan on arrays, for every kind of device.

The compiled code has packed its operands, so an exchange is always along the first dimension. The
kinds of devices (threads, MPI, torch.distributed) differ in the exchange only.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

from shard_dialect.codegen.array_types import Array
from shard_dialect.codegen.lowered_program import Site
from shard_dialect.ir.shard.local_collectives import LocalStep
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
from shard_dialect.model.collectives import NOBODY
from shard_dialect.model.point_to_point import Receive, Send
from shard_dialect.model.rooted_collectives import (
    Broadcast,
    Gather,
    Reduce,
    Scatter,
    Shift,
    flat_index,
)
from shard_dialect.planner.halos import halo_messages
from shard_dialect.runtime.communicators.group import Group
from shard_dialect.runtime.profiling.recorder import Recorder


class Member(ABC):
    """One device, and the groups in which it has communicated so far.

    A thread of its own executes started collectives, in the order of the program. All devices run
    the same program, so they execute them in the same order.
    """

    def __init__(self, rank: int) -> None:
        self.rank = rank
        self._groups: dict[tuple[Grid, Axes], Group] = {}
        self._speaker: ThreadPoolExecutor | None = None
        self._started: dict[int, Future[None]] = {}
        self.recorder: Recorder | None = None

    def perform(self, site: Site, source: Array, target: Array) -> None:
        """Answer the compiled code: execute `site`'s step, or a phase of it, in its group."""
        if self.recorder is None:
            self._answer(site, source, target)
        else:
            with self.recorder.waiting(site):
                self._answer(site, source, target)

    def _answer(self, site: Site, source: Array, target: Array) -> None:
        if site.phase == "done":
            started = self._started.pop(target.ctypes.data, None)
            if started is not None:
                started.result()
        elif site.phase == "start":
            self._started[target.ctypes.data] = self._speak(site, source, target)
        elif self._speaker is not None:
            self._speak(site, source, target).result()
        else:
            self._perform(site, source, target)

    def rest(self) -> None:
        """At the end of a run, wait for what was started, and stop the thread."""
        if self._speaker is not None:
            self._speaker.shutdown()
            self._speaker = None

    def _speak(self, site: Site, source: Array, target: Array) -> Future[None]:
        if self._speaker is None:
            self._speaker = ThreadPoolExecutor(1, f"device {self.rank}")
        return self._speaker.submit(self._perform, site, source, target)

    def _perform(self, site: Site, source: Array, target: Array) -> None:
        group = self.group(site.grid, site.step.axes)
        if self.recorder is None:
            perform(site.step, site.grid, group, source, target)
        else:
            with self.recorder.collective(site):
                perform(site.step, site.grid, group, source, target)

    def group(self, grid: Grid, axes: Axes) -> Group:
        """This device's group along `axes`, created once."""
        key = (grid, axes)
        if key not in self._groups:
            self._groups[key] = self.join(*key)
        return self._groups[key]

    @abstractmethod
    def join(self, grid: Grid, axes: Axes) -> Group:
        """Create this device's group along `axes`."""


def perform(step: LocalStep, grid: Grid, group: Group, source: Array, target: Array) -> None:
    """Execute one step along the first dimension of `source`; `target` gets the result."""
    _PERFORM[type(step)](step, grid, group, source, target)


def _permute(step: Permute, group: Group, source: Array, target: Array) -> None:
    to, members = step.permutation[group.index], step.permutation
    origin = members.index(group.index) if group.index in members else None
    if origin is None:
        target[...] = 0
    group.permute(source, target, None if to == NOBODY else to, origin)


def _update_halo(step: UpdateHalo, group: Group, source: Array, target: Array) -> None:
    target[...] = source
    for each in halo_messages(step, len(target)):
        group.permute(
            target[each.sent : each.sent + each.count],
            target[each.put : each.put + each.count],
            _at(group, each.to),
            _at(group, -each.to),
        )


def _at(group: Group, distance: int) -> int | None:
    member = group.index + distance
    return member if 0 <= member < group.size else None


def _shift(step: Shift, grid: Grid, group: Group, source: Array, target: Array) -> None:
    target[...] = 0  # for a device that receives nothing
    group.permute(source, target, *step.partners(group.index, grid.sizes_along(step.axes)))


def _send(step: Send, grid: Grid, group: Group, source: Array, target: Array) -> None:
    group.send(source, flat_index(step.destination, grid.sizes_along(step.axes)))
    target[...] = source


def _receive(step: Receive, grid: Grid, group: Group, _: Array, target: Array) -> None:
    origin = step.source
    sizes = grid.sizes_along(step.axes)
    group.receive(target, None if origin is None else flat_index(origin, sizes))


def _root(step: Broadcast | Gather | Reduce | Scatter, grid: Grid) -> int:
    return flat_index(step.root, grid.sizes_along(step.axes))


_PERFORM: dict[type, Callable[..., None]] = {
    AllGather: lambda _, __, group, *arrays: group.all_gather(*arrays),
    AllReduce: lambda step, _, group, *arrays: group.all_reduce(*arrays, step.reduction),
    ReduceScatter: lambda step, _, group, *arrays: group.reduce_scatter(*arrays, step.reduction),
    AllToAll: lambda _, __, group, *arrays: group.all_to_all(*arrays),
    Permute: lambda step, _, group, *arrays: _permute(step, group, *arrays),
    UpdateHalo: lambda step, _, group, *arrays: _update_halo(step, group, *arrays),
    Shift: _shift,
    Send: _send,
    Receive: _receive,
    Broadcast: lambda step, grid, group, *arrays: group.broadcast(*arrays, _root(step, grid)),
    Gather: lambda step, grid, group, *arrays: group.gather(*arrays, _root(step, grid)),
    Scatter: lambda step, grid, group, *arrays: group.scatter(*arrays, _root(step, grid)),
    Reduce: lambda step, grid, group, *arrays: group.reduce(
        *arrays, _root(step, grid), step.reduction
    ),
}
