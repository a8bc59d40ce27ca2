"""Records when a device computes, when it waits, and when its collectives run.

    thread 0    |-compute-|--wait--|-compute-|
    thread 1              |-gather-|

A collective that was started runs beside computation: thread 0 then waits at its `mesh.done` only.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise

from shard_dialect.abi.lowered_program import Site
from shard_dialect.analysis import trace_events
from shard_dialect.analysis.trace_events import Event, complete

_Span = tuple[Site, float, float]
COLLECTIVE, COMPUTE, WAIT = "collective", "compute", "wait"
"""The categories of events."""


@dataclass
class Recorder:
    """The spans of one run of one device, in seconds of `time.monotonic`."""

    rank: int
    _run: tuple[float, float] = (0.0, 0.0)
    _collectives: list[_Span] = field(default_factory=list)
    _waits: list[_Span] = field(default_factory=list)

    @contextmanager
    def running(self) -> Iterator[None]:
        """Around the whole run."""
        begin = time.monotonic()
        yield
        self._run = (begin, time.monotonic())

    @contextmanager
    def collective(self, site: Site) -> Iterator[None]:
        """Around a collective, in whichever thread."""
        begin = time.monotonic()
        yield
        self._collectives.append((site, begin, time.monotonic()))

    @contextmanager
    def waiting(self, site: Site) -> Iterator[None]:
        """Around what keeps the device from computing."""
        begin = time.monotonic()
        yield
        self._waits.append((site, begin, time.monotonic()))

    def events(self) -> list[Event]:
        """All that was recorded."""
        return [*self._computing(), *self._waiting(), *self._communicating()]

    def _computing(self) -> Iterator[Event]:
        begin, end = self._run
        marks = [begin, *(each for _, *span in self._waits for each in span), end]
        for number, (start, stop) in enumerate(pairwise(marks)):
            if number % 2 == 0:
                yield self._event("compute", COMPUTE, trace_events.COMPUTE, start, stop)

    def _waiting(self) -> Iterator[Event]:
        for site, begin, end in self._waits:
            yield self._event(f"wait for {site.step.kind}", WAIT, trace_events.COMPUTE, begin, end)

    def _communicating(self) -> Iterator[Event]:
        for site, begin, end in self._collectives:
            if not site.step.communicates:
                continue
            grid, step = site.grid, site.step
            size = grid.axes_size(step.axes)
            event = self._event(step.kind, COLLECTIVE, trace_events.NETWORK, begin, end)
            event["args"] = {
                "axes": list(grid.axes_names(step.axes)),
                "devices": list(grid.group_of(self.rank, step.axes)),
                "operand": site.operand,
                "result": site.result,
                "bytes": step.bytes_moved(size, site.source.shape, site.source.dtype.itemsize),
                "together": not step.is_message,
            }
            yield event

    def _event(self, name: str, category: str, thread: int, begin: float, end: float) -> Event:
        return complete(name, self.rank, thread, begin, end - begin, category)
