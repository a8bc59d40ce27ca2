"""The time of ops that do not wait for what they do not need: list scheduling, longest chains.

List scheduling (Graham, Bell System Technical Journal 45(9), 1966) takes whenever the device or the
network is free the first op, in the order of the program, whose operands are there.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import replace

from shard_dialect.analysis.costs.timeline import Item, TimedOp, event_of


def overlapped(items: Sequence[Item]) -> float:
    """The seconds of items on a device and a network that work beside each other."""
    return _ListScheduling(items).run()


class _ListScheduling:
    """Lane 0 is the device, lane 1 the network."""

    def __init__(self, items: Sequence[Item]) -> None:
        self._items = items
        self._waiting = [len(item.needs) for item in items]
        self._readers: list[list[int]] = [[] for _ in items]
        for number, item in enumerate(items):
            for each in item.needs:
                self._readers[each].append(number)
        self._ready: tuple[list[int], list[int]] = ([], [])
        self._free = [True, True]
        self._running: list[tuple[float, int]] = []
        self._now = 0.0

    def run(self) -> float:
        for number, count in enumerate(self._waiting):
            if not count:
                self._release(number)
        while self._running or any(self._ready):
            while self._start(0) or self._start(1):
                pass
            self._now, number = heapq.heappop(self._running)
            self._occupy(number, free=True)
            for reader in self._readers[number]:
                self._waiting[reader] -= 1
                if not self._waiting[reader]:
                    self._release(reader)
        return self._now

    def _release(self, number: int) -> None:
        heapq.heappush(self._ready[self._items[number].is_collective], number)

    def _start(self, lane: int) -> bool:
        """Start the first item that is ready, if all that it takes is free."""
        if not self._ready[lane]:
            return False
        number = self._ready[lane][0]
        if not all(self._free[each] for each in self._lanes(number)):
            return False
        heapq.heappop(self._ready[lane])
        self._occupy(number, free=False)
        item = self._items[number]
        taken = item.inside.overlapped if item.inside is not None else item.time.seconds
        heapq.heappush(self._running, (self._now + taken, number))
        return True

    def _lanes(self, number: int) -> tuple[int, ...]:
        item = self._items[number]
        return (0, 1) if item.takes_both else (int(item.is_collective),)

    def _occupy(self, number: int, *, free: bool) -> None:
        for lane in self._lanes(number):
            self._free[lane] = free


def longest_chain(items: Sequence[Item]) -> tuple[float, tuple[TimedOp, ...]]:
    """The longest chain of items that need each other."""
    ends: list[float] = []
    before: list[int | None] = []
    for item in items:
        last = max(item.needs, key=ends.__getitem__, default=None)
        taken = item.inside.chain if item.inside is not None else item.time.seconds
        ends.append((0.0 if last is None else ends[last]) + taken)
        before.append(last)
    if not ends:
        return 0.0, ()
    at: int | None = max(range(len(ends)), key=ends.__getitem__)
    chain: list[TimedOp] = []
    total = ends[at] if at is not None else 0.0
    while at is not None:
        item = items[at]
        taken = item.inside.chain if item.inside is not None else item.time.seconds
        if taken:
            inside = item.inside.critical if item.inside is not None else ()
            start = ends[at] - taken
            chain.append(replace(event_of(item, start), seconds=taken, inside=inside))
        at = before[at]
    return total, tuple(reversed(chain))
