"""Point-to-point messages between devices in one process, with deadlock detection.

A device may wait for a message that never comes, because the sender has ended, or itself waits.
Once no device can go on, all devices that wait for a message raise an error; none hangs.
"""

from __future__ import annotations

import threading
from collections import defaultdict, deque
from collections.abc import Callable

from shard_dialect.codegen.array_types import Array
from shard_dialect.errors import ShardError
from shard_dialect.runtime.communicators.meeting import Meeting

_Ranks = tuple[int, ...]
_TICK = 0.1
_QUIET = 20
"""The ticks without an event after which devices that all wait are taken to be deadlocked.

They are not seconds, since a process that was stopped for a while must be able to continue.
"""


class Mailbox:
    """The messages of `size` devices, in the order in which they were sent."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._changed = threading.Condition()
        self._messages: dict[tuple[_Ranks, int, int, int], deque[Array]] = defaultdict(deque)
        self._stuck: dict[int, Callable[[], bool]] = {}
        """For each device that waits or has ended, whether it is still unable to go on."""
        self._events = 0
        self._is_aborted = False

    def send(self, group: _Ranks, source: int, to: int, array: Array, tag: int = 0) -> None:
        """Queue the array for member `to`."""
        with self._changed:
            self._messages[group, source, to, tag].append(array)
            self._events += 1
            self._changed.notify_all()

    def receive(self, group: _Ranks, to: int, source: int | None, tag: int = 0) -> Array:
        """Return the next message of a tag from a member of the group, or from any of them.

        Raises a `ShardError` if none can come any more.
        """
        sources = range(len(group)) if source is None else (source,)
        boxes = [self._messages[group, each, to, tag] for each in sources]
        rank = group[to]
        events, quiet = -1, 0
        with self._changed:
            self._stuck[rank] = lambda: not any(boxes)
            while not self._is_aborted:
                for box in filter(None, boxes):
                    del self._stuck[rank]
                    self._events += 1
                    return box.popleft()
                quiet = quiet + 1 if events == self._events and self._all_wait() else 0
                events = self._events
                if quiet > _QUIET:
                    raise ShardError(
                        f"device {rank} waits for what {_named(group, source)} does not send: "
                        "each device has ended, or waits too"
                    )
                self._changed.wait(_TICK)
        raise threading.BrokenBarrierError

    def leave(self, rank: int) -> None:
        """Record that a device has ended."""
        with self._changed:
            self._stuck[rank] = lambda: True
            self._events += 1

    def abort(self) -> None:
        """Let all waiting devices raise an error."""
        with self._changed:
            self._is_aborted = True
            self._changed.notify_all()

    def meet(self, rank: int, meeting: Meeting, member: int) -> None:
        """Meet the others of a group, of which device `rank` is this member."""
        self._stuck[rank] = lambda: meeting.waits(member)  # at a complete one, all go on
        meeting.wait(member)
        self._stuck.pop(rank, None)
        self._events += 1

    def _all_wait(self) -> bool:
        """Whether no device computes, or can go on."""
        stuck = list(self._stuck.values())
        return len(stuck) == self._size and all(each() for each in stuck)


def _named(group: _Ranks, member: int | None) -> str:
    return "any other device" if member is None else f"device {group[member]}"
