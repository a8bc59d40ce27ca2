"""What devices in one process send each other, apart from where their groups meet.

A device may wait for what none will send: because the one it waits for has ended, or waits itself.
Once no device can go on, all those that wait for a message say so; none hangs.
"""

from __future__ import annotations

import threading
import time
from collections import defaultdict, deque
from collections.abc import Iterator
from contextlib import contextmanager

from shard_dialect.errors import ShardError
from shard_dialect.runtime.arrays import Array

_Ranks = tuple[int, ...]
_TICK = 0.1
_STUCK = 2.0
"""Seconds in which nothing happens before devices that all wait are taken to wait for ever."""


class Post:
    """The messages of `size` devices, in the order in which they were sent."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._changed = threading.Condition()
        self._messages: dict[tuple[_Ranks, int, int], deque[Array]] = defaultdict(deque)
        self._idle: dict[int, threading.Barrier | None] = {}
        """The devices that wait or have ended; of those at a meeting its barrier."""
        self._events = 0
        self._is_aborted = False

    def send(self, group: _Ranks, source: int, to: int, array: Array) -> None:
        with self._changed:
            self._messages[group, source, to].append(array)
            self._events += 1
            self._changed.notify_all()

    def receive(self, group: _Ranks, to: int, source: int | None) -> Array:
        """The next message from a member of the group, or from any of them.

        Raises a `ShardError` if none can come any more.
        """
        sources = range(len(group)) if source is None else (source,)
        rank = group[to]
        events, since = -1, 0.0
        with self._changed:
            self._idle[rank] = None
            while not self._is_aborted:
                for each in sources:
                    if self._messages[group, each, to]:
                        del self._idle[rank]
                        self._events += 1
                        return self._messages[group, each, to].popleft()
                now = time.monotonic()
                if events != self._events or not self._all_wait():
                    events, since = self._events, now
                elif now - since > _STUCK:
                    raise ShardError(
                        f"device {rank} waits for what {_named(group, source)} does not send: "
                        "each device has ended, or waits too"
                    )
                self._changed.wait(_TICK)
        raise threading.BrokenBarrierError

    def leave(self, rank: int) -> None:
        """A device has ended."""
        with self._changed:
            self._idle[rank] = None
            self._events += 1

    def abort(self) -> None:
        with self._changed:
            self._is_aborted = True
            self._changed.notify_all()

    @contextmanager
    def at_meeting(self, rank: int, barrier: threading.Barrier) -> Iterator[None]:
        """A device waits for the others of a group."""
        self._idle[rank] = barrier
        yield
        self._idle.pop(rank, None)
        self._events += 1

    def _all_wait(self) -> bool:
        """Whether no device computes: those that a full barrier lets go do."""
        idle = list(self._idle.values())
        return len(idle) == self._size and all(each is None or each.n_waiting for each in idle)


def _named(group: _Ranks, place: int | None) -> str:
    return "any other device" if place is None else f"device {group[place]}"
