"""The hub that connects the ranks of one job on this machine, and prints one failure.

    watch of rank 0 -- hub      each rank has a watch (`watch.py`), which reports to the hub how far
    watch of rank 1 ---'        the rank is, or that it failed; the first watch to start also has
    watch of rank 2 ---'        the hub. The hub prints the first failure, and ends all ranks.

They meet at an abstract socket, which vanishes with its owner. The hubs of several machines meet at
an exchange (`hosts.py`).
"""

from __future__ import annotations

import errno
import hashlib
import os
import select
import selectors
import socket
import struct
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from shard_dialect.errors import say
from shard_dialect.processes import hosts
from shard_dialect.processes.hosts import HostLink
from shard_dialect.processes.launchers import Rank

_PARTICIPLES = {"ready": "become ready"}
STATES = ("started", "ready", "joined", "done")
"""The states of a rank: started, ready to join the others, joined to them, done."""
END = "end"
INVITED = "invited"
"""Sent with the invitation to the exchange of several hosts."""
_LONGEST = 60_000
"""The largest number of bytes of a message, which fits in one datagram."""
_START, _READY, _JOIN = 6.0, 30.0, 60.0
"""Seconds that ranks wait for those that have not started, or not become ready, and to join.

A process that never starts is a mistake of the launch, and known soon. Those that have started are
alive, and a machine with much else to do may let them import torch and meet for long.
"""
_CAUSE = 1.0
"""The seconds in which a rank that others have lost can report its own failure."""
GOODBYE = 2.0
"""The seconds in which watches end their ranks."""
MEET = 10.0
"""The seconds in which the owner of the hub's address must answer, for each rank per core."""
_TALK = 5.0
"""The seconds that sending a message may take."""


class NoMeetingError(Exception):
    """The ranks cannot connect: the message says why."""


@dataclass(slots=True)
class _Member:
    link: socket.socket
    rank: int = -1


class Hub:
    """Receives from each rank's watch. They connect to `listener`, `None` if there is one rank.

    `timeout` is in seconds, for all that the ranks do. `before_end` is called before their end is
    reported; `others` with each other rank that comes and its watch's process, 0 when it leaves.
    """

    def __init__(
        self,
        selector: selectors.BaseSelector,
        own: Rank,
        timeout: float,
        listener: socket.socket | None,
        before_end: Callable[[], None] = lambda: None,
        others: Callable[[int, int], None] = lambda rank, process: None,
    ) -> None:
        self._before_end = before_end
        self._others = others
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
        self.failure = ""
        """The text of the failure that ended the job."""
        self._exchange: HostLink | None = None
        self._is_asked = False
        self._accept_invitation: Callable[[str], None] | None = None
        if not own.is_all_here:
            self._accept_invitation = hosts.seek(selector, own, self._meet_hosts)
        if listener is not None:
            selector.register(listener, selectors.EVENT_READ, self._accept)

    @property
    def has_failed(self) -> bool:
        """Whether a failure ends the job."""
        return self._ended is not None

    @property
    def is_over(self) -> bool:
        """Whether all watches have left, or need not be waited for."""
        if self._ended is not None:
            return not self._members or time.monotonic() - self._ended > GOODBYE
        return not self._members and self._least() == len(STATES) - 1

    def add(self, link: socket.socket) -> None:
        """Add the connection of a watch."""
        member = _Member(link)
        self._members.append(member)
        self._selector.register(link, selectors.EVENT_READ, lambda: self._hear(member))
        send(link, str(self._own.number))
        if self.has_failed:
            send(link, END)

    def look(self) -> None:
        """End the job if an expected event is overdue."""
        now = time.monotonic()
        if self.has_failed:
            return
        if self._suspected and now >= self._suspected[0]:
            self._end_everywhere(self._suspected[1])
        elif now - self._begun > self._timeout:
            self._end_everywhere(self._too_long())
        elif self._least() >= self._waits_for:
            self._waits_for = self._least() + 1
            self._since = now
        elif now - self._since > self._patience() and self._is_waiting():
            self._end_everywhere(self._late())

    def leave(self) -> None:
        """Leave the hubs of other hosts, once this one is over."""
        if self._exchange is not None:
            self._exchange.tell(hosts.DONE)
            self._lose_exchange()

    def _meet_hosts(self, exchange: HostLink) -> None:
        if self._exchange is not None or self.has_failed:
            exchange.tell(hosts.DONE)
            exchange.close()
            return
        self._exchange = exchange
        self._selector.register(exchange.socket, selectors.EVENT_READ, self._hear_exchange)

    def _hear_exchange(self) -> None:
        assert self._exchange is not None, "it is registered while it is there"
        gone = killed(0)
        try:
            lines = self._exchange.hear()
        except OSError:
            lines, gone = None, "error: the host of rank 0 does not answer"
        for kind, text in lines or ():
            if kind == hosts.OVER:
                self._lose_exchange()
                return
            if kind in (hosts.SAY, hosts.END) and not self.has_failed:
                self._end(text if kind == hosts.SAY or self._own.has_own_stderr else "")
        if lines is None:
            self._lose_exchange()
            when = self._suspected[0] if self._suspected else time.monotonic() + _CAUSE
            if not self._is_asked:
                self._suspected = (when, gone)

    def _lose_exchange(self) -> None:
        assert self._exchange is not None, "who calls this has seen it"
        self._selector.unregister(self._exchange.socket)
        self._exchange.close()
        self._exchange = None

    def _accept(self) -> None:
        assert self._listener is not None, "nothing else is registered for it"
        try:
            link, _ = self._listener.accept()
        except OSError:  # it has disconnected already
            return
        link.settimeout(_TALK)
        if is_own_user(link):
            self.add(link)
        else:
            link.close()

    def _hear(self, member: _Member) -> None:
        message = receive(member.link)
        if message is None:
            self._gone(member)
            return
        rank, kind, text = message.split("\n", 2)
        if member.rank < 0 and int(rank) != self._own.number:
            self._others(int(rank), _peer(member.link)[0])
        member.rank = int(rank)
        if kind == INVITED:
            if self._accept_invitation is not None:
                self._accept_invitation(text)
                self._accept_invitation = None
        elif kind in STATES:
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
        elif member.rank not in (-1, self._own.number):
            self._others(member.rank, 0)

    def _fail(self, text: str, *, is_cause: bool) -> None:
        """Handle a failure; one that follows from another is reported only if no cause comes.

        Without a job, all ranks may have the same failure, and rank 0 is to report it.
        """
        if self.has_failed:
            return
        if is_cause and (self._own.job or not self._own.number):
            self._end_everywhere(text)
        elif self._suspected is None:
            self._suspected = (time.monotonic() + _CAUSE, text)

    def _end_everywhere(self, text: str) -> None:
        """End all hosts. The exchange says whose failure was the first, if it answers soon."""
        if self._exchange is None or (self._is_asked and self._is_overdue()):
            self._end(text)
        elif not self._is_asked:
            self._is_asked = True
            self._suspected = (time.monotonic() + _CAUSE, text)
            self._exchange.tell(hosts.FAILED, text)

    def _is_overdue(self) -> bool:
        return self._suspected is not None and time.monotonic() >= self._suspected[0]

    def _end(self, text: str) -> None:
        self._ended = time.monotonic()
        self.failure = text
        self._before_end()
        if text:
            say(text)
        for member in self._members:
            send(member.link, END)

    def _least(self) -> int:
        """The state of the slowest rank; -1 if not all have started."""
        return min(self._states.values()) if len(self._states) >= self._own.here else -1

    @property
    def waits_for(self) -> str:
        """The number of ranks for which others wait, in words; empty if none does."""
        if self._own.size == 1 or not self._is_waiting():
            return ""
        what = STATES[self._waits_for]
        count = sum(state >= self._waits_for for state in self._states.values())
        return f"{count} of {self._own.here} ranks have {_PARTICIPLES.get(what, what)}"

    def _is_first(self, kind: str) -> bool:
        return sum(state >= STATES.index(kind) for state in self._states.values()) == 1

    def _is_waiting(self) -> bool:
        """Whether any rank waits for others: once one is ready, until all have joined."""
        if self._waits_for == STATES.index("ready"):
            return max(self._states.values()) >= self._waits_for
        return self._waits_for <= STATES.index("joined")

    def _patience(self) -> float:
        """The factor for timeouts: more ranks than cores are slower, unless they only wait."""
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
    """The message for a program that takes longer than it may."""
    return f"error: not done after {timeout:g} s"


def killed(rank: int) -> str:
    """The message for a rank that was killed together with its watch."""
    return f"error: rank {rank} was killed" if rank >= 0 else "error: a rank was killed"


def name_of(job: str) -> bytes:
    """The address of a job's hub: an abstract one, with this user's id."""
    return b"\0shard-run-" + hashlib.sha256(f"{os.getuid()} {job}".encode()).hexdigest().encode()


def claim(job: str) -> socket.socket | None:
    """Listen at the address of the job's hub; `None` if another process has it."""
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
    """Connect to the job's hub; `None` if there is none, or it does not listen.

    Raises `NoMeetingError` if another user has its address.
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


def is_own_user(link: socket.socket) -> bool:
    """Whether the peer belongs to the same user."""
    return user_of(link) == os.getuid()


def user_of(link: socket.socket) -> int:
    """The user id of the peer's process, by the system."""
    return _peer(link)[1]


def wait_for_end(link: socket.socket) -> None:
    """Wait until the process at the other end, which is being killed, has ended: a second at most.

    Its end closes its files one after another, and the guard's pipe may come after this link. A
    watch that ends in between would seem to the guard to have ended first.
    """
    with suppress(OSError, AttributeError):  # it has ended, or the system cannot say when
        process = os.pidfd_open(_peer(link)[0])
        select.select([process], [], [], _CAUSE)
        os.close(process)


def _peer(link: socket.socket) -> tuple[int, int]:
    """The peer's process and its user id, by the system."""
    size = struct.calcsize("3i")
    credentials = link.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size)
    process, user, _ = struct.unpack("3i", credentials)
    return int(process), int(user)


def send(link: socket.socket, text: str) -> None:
    """Send, unless the peer has disconnected, which the reader of the link will notice."""
    with suppress(OSError):
        link.send(text.encode(errors="replace")[:_LONGEST])


def receive(link: socket.socket) -> str | None:
    """The next message; `None` if the peer has disconnected."""
    try:
        return link.recv(_LONGEST).decode(errors="replace") or None
    except OSError:
        return None
