"""Threads of one process: work one after another, messages between two, exchanges of a group.

`Mailbox` has the messages between devices in one process, with deadlock detection. A device may
wait for a message that never comes, because the sender has ended, or itself waits. Once no device
can go on, all devices that wait for a message raise an error; where none does, since they wait for
each other at meetings, `deadlock` says so. None hangs.

At a `Meeting` the threads of one group of devices exchange arrays. `begin` hands work to a thread
that runs one piece after another, since starting a thread takes longer than a collective.
"""

from __future__ import annotations

import os
import threading
from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from shard_dialect.abi.lowered_program import Site
from shard_dialect.abi.tensor_types import Array
from shard_dialect.errors import ShardError

Arrays = tuple[Array, Array, Any]
"""Those of a member at a meeting: what it sends, where its result is to be written, and an argument
of the collective, such as the reduction."""


class Meeting:
    """A barrier, and the arrays of each member.

    A member waits for a lock of its own that the last one releases, which takes a third of the time
    of `threading.Barrier`. Each one says at which site it is. It is an error where these differ.
    """

    def __init__(self, size: int) -> None:
        self.members: list[Arrays] = [(np.empty(0), np.empty(0), None)] * size
        self._size = size
        self._sites: list[Site | None] = [None] * size
        self._lock = threading.Lock()
        self._arrived: list[int] = []
        self._released = [threading.Lock() for _ in range(size)]
        for lock in self._released:
            lock.acquire()
        self._is_aborted = False

    def waits(self, member: int) -> bool:
        """Whether a member waits for others that have not arrived."""
        return member in self._arrived

    def missing(self) -> list[int]:
        """The members that have not arrived."""
        return [each for each in range(self._size) if each not in self._arrived]

    def wait(
        self, member: int, site: Site | None = None, at_last: Callable[[], None] | None = None
    ) -> None:
        """Wait until all members have come; raises `BrokenBarrierError` after `abort`.

        The last one raises a located `ShardError` if the sites are not equal. Else it runs
        `at_last` before the others go on.
        """
        with self._lock:
            if self._is_aborted:
                raise threading.BrokenBarrierError
            self._sites[member] = site
            arrived = self._arrived
            arrived.append(member)
            is_last = len(arrived) == self._size
            if is_last:
                self._check_sites(site)
                if at_last is not None:
                    at_last()
                self._arrived = []
        if is_last:
            for each in arrived:
                if each != member:
                    self._released[each].release()
        else:
            self._released[member].acquire()
            if self._is_aborted:
                raise threading.BrokenBarrierError

    def _check_sites(self, site: Site | None) -> None:
        for other in self._sites:
            if site is None or other is None or other is site or other == site:
                continue
            at = f", {other.place}" if other.place else ""
            raise ShardError(
                f"'{site.step.kind}' is reached while other devices of the group are at "
                f"'{other.step.kind}'{at}: all must reach the same collectives in one order",
                site.place or None,
            )

    def abort(self) -> None:
        """Let all waiting members raise an error, and all later ones."""
        with self._lock:
            self._is_aborted = True
            for each in self._arrived:
                self._released[each].release()
            self._arrived = []


_Ranks = tuple[int, ...]
TICK = 0.1
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
        """For each that waits for a message or has ended, whether it is still unable to go on."""
        self._meetings: dict[int, tuple[_Ranks, Meeting, int, Site | None]] = {}
        """The last meeting of each device: its group, the device's place in it, and the site."""
        self._events = 0
        self._seen, self._quiet = -1, 0
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
        rank = group[to]
        events, quiet = -1, 0
        with self._changed:
            # Also to look for a box may create one, and another thread would send to its own.
            boxes = [self._messages[group, each, to, tag] for each in sources]
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
                self._changed.wait(TICK)
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

    def meet(
        self,
        group: _Ranks,
        meeting: Meeting,
        member: int,
        site: Site | None,
        at_last: Callable[[], None] | None = None,
    ) -> None:
        """Meet the others of a group, as this member of it, at this site: see `Meeting.wait`."""
        self._meetings[group[member]] = group, meeting, member, site
        meeting.wait(member, site, at_last)
        self._events += 1

    def deadlock(self) -> ShardError | None:
        """The error of devices that wait at meetings for ever; to be asked at every tick.

        It is later than that of a device that waits for a message, which says more.
        """
        self._quiet = self._quiet + 1 if self._seen == self._events and self._all_wait() else 0
        self._seen = self._events
        if self._quiet <= 2 * _QUIET:
            return None
        for rank, (group, meeting, member, site) in sorted(self._meetings.items()):
            if meeting.waits(member):
                return ShardError(
                    f"device {rank} waits at a collective of {_listed(group)} for "
                    f"{_listed([group[each] for each in meeting.missing()])}: each device has "
                    "ended, or waits too; all devices of a group must reach each of its "
                    "collectives, and in one order",
                    (site.place if site else "") or None,
                )
        return None

    def _all_wait(self) -> bool:
        """Whether no device computes, or can go on."""
        return all(self._is_stuck(rank) for rank in range(self._size))

    def _is_stuck(self, rank: int) -> bool:
        if rank in self._stuck:
            return self._stuck[rank]()
        _, meeting, member, _ = self._meetings.get(rank, _NOWHERE)
        return meeting.waits(member)  # at a complete one, all go on


_NOWHERE: tuple[_Ranks, Meeting, int, Site | None] = (), Meeting(0), 0, None


def _listed(ranks: Sequence[int]) -> str:
    """The first of some devices, and how many there are.

    >>> _listed([3]), _listed(range(3)), _listed(range(100))
    ('device 3', 'devices 0, 1, 2', 'devices 0, 1, 2, 3, ... (100)')
    """
    first = ", ".join(map(str, ranks[:4]))
    more = f", ... ({len(ranks)})" if len(ranks) > 4 else ""
    return f"{'device' if len(ranks) == 1 else 'devices'} {first}{more}"


def _named(group: _Ranks, member: int | None) -> str:
    return "any other device" if member is None else f"device {group[member]}"


Work = Callable[[], None]


class _Worker:
    """A daemon, so that the interpreter does not wait for a thread that still computes."""

    def __init__(self) -> None:
        self._begin = threading.Lock()
        self._begin.acquire()
        self._work: tuple[Work, threading.Lock] | None = None
        threading.Thread(target=self._run, daemon=True).start()

    def give(self, work: Work, running: threading.Lock) -> None:
        """Run `work`, and release `running` after it. The worker must be idle."""
        self._work = work, running
        self._begin.release()

    def _run(self) -> None:
        while True:
            self._begin.acquire()
            assert self._work is not None, "it was given before"
            work, running = self._work
            self._work = None
            try:
                work()
                _idle.append(self)  # not if it has raised, since the thread ends then
            finally:
                del work  # and what it holds, which an idle thread does not need
                running.release()


_idle: list[_Worker] = []
os.register_at_fork(after_in_child=_idle.clear)  # a child has none of its parent's threads


def begin(work: Work) -> threading.Lock:
    """Run `work`, which raises nothing, on a thread; the lock that is returned is free after it.

    Raises `RuntimeError` where no thread can be started.
    """
    try:
        worker = _idle.pop()
    except IndexError:
        worker = _Worker()
    running = threading.Lock()
    running.acquire()
    worker.give(work, running)
    return running
