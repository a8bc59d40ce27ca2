"""The ranks of one job on this machine, and which failure is told.

    watch of rank 0 -- hub      each rank has a watch (`watch.py`), which tells the hub how far the
    watch of rank 1 ---'        rank is, or that it failed; the first watch to come has the hub
    watch of rank 2 ---'        too. The hub prints the first failure, and ends all ranks.

They meet at an abstract socket, which is gone when its owner is.
"""

from __future__ import annotations

import errno
import hashlib
import os
import selectors
import socket
import struct
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from shard_dialect.errors import say
from shard_dialect.processes.launchers import Rank

STATES = ("started", "ready", "joined", "done")
"""How far a rank is: ready to join the others, and then joined to them."""
END = "end"
_LONGEST = 60_000
"""Bytes of a message; one datagram holds it."""
_START, _READY, _JOIN = 6.0, 30.0, 60.0
"""Seconds that ranks wait for those that have not started, or not become ready, and to join.

A process that never starts is a mistake of the launch, and known soon. Those that have started are
alive, and a machine with much else to do may let them import torch and meet for long.
"""
_CAUSE = 1.0
"""Seconds in which a rank that others have lost can say why."""
GOODBYE = 2.0
"""Seconds in which watches end their ranks."""
MEET = 10.0
"""Seconds in which who has the hub's place listens, and answers, to each rank that a core has."""
_TALK = 5.0
"""Seconds that a message may take to be sent."""


class NoMeetingError(Exception):
    """The ranks cannot meet: the message says why."""


@dataclass(slots=True)
class _Member:
    link: socket.socket
    rank: int = -1


class Hub:
    """Hears each rank's watch. `listener` is where they come; `None` if there is one rank only.

    `timeout` is in seconds, for all that the ranks do. `before_end` is called before it is said
    that they end.
    """

    def __init__(
        self,
        selector: selectors.BaseSelector,
        own: Rank,
        timeout: float,
        listener: socket.socket | None,
        before_end: Callable[[], None] = lambda: None,
    ) -> None:
        self._before_end = before_end
        self._selector = selector
        self._own = own
        self._timeout = timeout
        self._begun = time.monotonic()
        self._listener = listener
        self._members: list[_Member] = []
        self._states: dict[int, int] = {}
        self._since = time.monotonic()
        self._waits_for = 0
        self._suspected: tuple[float, str] | None = None
        self._ended: float | None = None
        if listener is not None:
            selector.register(listener, selectors.EVENT_READ, self._accept)

    @property
    def has_failed(self) -> bool:
        return self._ended is not None

    @property
    def is_over(self) -> bool:
        """Whether all watches have gone, or need not be waited for."""
        if self._ended is not None:
            return not self._members or time.monotonic() - self._ended > GOODBYE
        return not self._members and self._least() == len(STATES) - 1

    def add(self, link: socket.socket) -> None:
        """A watch has come."""
        member = _Member(link)
        self._members.append(member)
        self._selector.register(link, selectors.EVENT_READ, lambda: self._hear(member))
        send(link, str(self._own.number))
        if self.has_failed:
            send(link, END)

    def look(self) -> None:
        """End the job if something has not happened for too long."""
        now = time.monotonic()
        if self.has_failed:
            return
        if self._suspected and now >= self._suspected[0]:
            self._end(self._suspected[1])
        elif now - self._begun > self._timeout:
            self._end(self._too_long())
        elif self._least() >= self._waits_for:
            self._waits_for = self._least() + 1
            self._since = now
        elif now - self._since > self._patience() and self._is_waiting():
            self._end(self._late())

    def _accept(self) -> None:
        assert self._listener is not None, "nothing else is registered for it"
        try:
            link, _ = self._listener.accept()
        except OSError:  # it has gone already
            return
        link.settimeout(_TALK)
        if is_ours(link):
            self.add(link)
        else:
            link.close()

    def _hear(self, member: _Member) -> None:
        said = receive(member.link)
        if said is None:
            self._gone(member)
            return
        rank, kind, text = said.split("\n", 2)
        member.rank = int(rank)
        if kind in STATES:
            self._states[member.rank] = STATES.index(kind)
            if self._waits_for == STATES.index("ready") and self._is_first("ready"):
                self._since = time.monotonic()
        else:
            self._fail(text, is_cause=kind == "failed")

    def _gone(self, member: _Member) -> None:
        self._members.remove(member)
        self._selector.unregister(member.link)
        member.link.close()
        if not self.has_failed and self._states.get(member.rank) != len(STATES) - 1:
            self._fail(killed(member.rank), is_cause=True)

    def _fail(self, text: str, *, is_cause: bool) -> None:
        """A failure; what follows from another one is told if none comes that explains it.

        Without a job all ranks may have the same to say, and rank 0 is to be the one.
        """
        if self.has_failed:
            return
        if is_cause and (self._own.job or not self._own.number):
            self._end(text)
        elif self._suspected is None:
            self._suspected = (time.monotonic() + _CAUSE, text)

    def _end(self, text: str) -> None:
        self._ended = time.monotonic()
        self._before_end()
        if text:
            say(text)
        for member in self._members:
            send(member.link, END)

    def _least(self) -> int:
        """How far all ranks are; -1 if not all have started."""
        return min(self._states.values()) if len(self._states) >= self._own.here else -1

    def _is_first(self, kind: str) -> bool:
        return sum(state >= STATES.index(kind) for state in self._states.values()) == 1

    def _is_waiting(self) -> bool:
        """Whether any rank waits for others: not before one is ready, nor once all have joined."""
        if self._waits_for == STATES.index("ready"):
            return max(self._states.values()) >= self._waits_for
        return self._waits_for <= STATES.index("joined")

    def _patience(self) -> float:
        """More ranks than cores are slower, as long as they do more than wait."""
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1
        if self._waits_for == STATES.index("started"):
            return _START * max(1.0, self._own.here / (8 * cores))
        ready = self._waits_for == STATES.index("ready")
        return (_READY if ready else _JOIN) * max(1.0, self._own.here / cores)

    def _too_long(self) -> str:
        done = len(STATES) - 1
        late = [f"rank {rank}" for rank, state in sorted(self._states.items()) if state < done]
        which = f" ({', '.join(late)})" if len(late) < len(self._states) else ""
        return too_long(self._timeout) + which

    def _late(self) -> str:
        what = STATES[self._waits_for]
        missing = self._own.here - len(self._states)
        late = [f"rank {each}" for each in range(self._own.size) if each not in self._states]
        if what != "started":
            late = [f"rank {r}" for r, state in sorted(self._states.items()) if state < 1]
        elif not self._own.is_all_here:
            late = [f"{missing} of the {self._own.here} ranks on this machine"]
        seconds = f"after {self._patience():.0f} s"
        if what == "joined":
            return f"error: the {self._own.size} ranks have not found each other {seconds}"
        verb = "has" if len(late) == 1 and late[0].startswith("rank") else "have"
        did = "started" if what == "started" else "become ready"
        return f"error: {', '.join(late)} {verb} not {did} {seconds}"


def too_long(timeout: float) -> str:
    """What to say where a program takes longer than it may."""
    return f"error: not done after {timeout:g} s"


def killed(rank: int) -> str:
    """What to say of a rank that has gone with its watch."""
    return f"error: rank {rank} was killed" if rank >= 0 else "error: a rank was killed"


def name_of(job: str) -> bytes:
    """The address of a job's hub: abstract, and of this user."""
    return b"\0shard-run-" + hashlib.sha256(f"{os.getuid()} {job}".encode()).hexdigest().encode()


def take(job: str) -> socket.socket | None:
    """The place of the job's hub; `None` if somebody has it."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try:
        listener.bind(name_of(job))
        listener.listen(4096)
    except OSError as error:
        listener.close()
        if error.errno == errno.EADDRINUSE:
            return None
        raise
    return listener


def connect(job: str) -> socket.socket | None:
    """A link to the job's hub; `None` if there is none, or it does not listen.

    Raises `NoMeetingError` if it is another user who has its place.
    """
    link = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    link.settimeout(_TALK / 10)
    try:
        link.connect(name_of(job))
        owner = user_of(link)
    except OSError:
        link.close()
        return None
    if owner != os.getuid():
        link.close()
        raise NoMeetingError(f"user {owner} has taken the place where the ranks of this job meet")
    link.settimeout(_TALK)
    return link


def is_ours(link: socket.socket) -> bool:
    """Whether the other end is of the same user."""
    return user_of(link) == os.getuid()


def user_of(link: socket.socket) -> int:
    """Whose the process at the other end is, as the system says."""
    size = struct.calcsize("3i")
    _, user, _ = struct.unpack("3i", link.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size))
    return int(user)


def send(link: socket.socket, text: str) -> None:
    """Send, unless the other end has gone: its reader will see that."""
    with suppress(OSError):
        link.send(text.encode(errors="replace")[:_LONGEST])


def receive(link: socket.socket) -> str | None:
    """The next message; `None` if the other end has gone."""
    try:
        return link.recv(_LONGEST).decode(errors="replace") or None
    except OSError:
        return None
