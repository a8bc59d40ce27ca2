"""Perform the steps of a reshard plan on arrays, for every kind of device.

The compiled code has packed its operands, so an exchange is always along the first dimension. The
kinds of devices (threads, MPI, torch.distributed) differ in the exchange only.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from concurrent.futures import Future, ThreadPoolExecutor

from shard_dialect.abi.lowered_program import Site
from shard_dialect.abi.tensor_types import Array
from shard_dialect.collectives import (
    LocalStep,
)
from shard_dialect.collectives.collective_table import record_of
from shard_dialect.model import Axes, Grid
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
    record = record_of(step)
    assert record.perform is not None, f"a {step.kind} is no step of compiled programs"
    record.perform(step, grid, group, source, target)
