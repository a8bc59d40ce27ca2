"""A process that only waits, to report that a watch was killed, which the watch itself cannot.

The watch that has the hub is guarded; the hub reports it for the other watches (`jobs.py`).
"""

from __future__ import annotations

import os
import select
import signal
import time
from contextlib import suppress

from shard_dialect.errors import say
from shard_dialect.processes import jobs

_GUARDED, _LEFT, _OTHER = "guarded", "left", "other"
_HOLD = 1.0
"""The seconds for which the guard holds the hub's address, so that no other reports the same."""


class Guard:
    """A process that ends with this one, and reports if this one was `guarded` and has not left."""

    def __init__(self, job: str, killed: str) -> None:
        read, self._pipe = os.pipe()
        if os.fork() == 0:
            try:
                _wait(read, job, killed)
            finally:
                os._exit(0)
        os.close(read)

    def close(self) -> None:
        """Close the guard in a process that is not the guarded one."""
        os.close(self._pipe)

    def guarded(self) -> None:
        """From here on, the guard reports if this process is killed."""
        self._tell(_GUARDED)

    def left(self) -> None:
        """Everything is reported, so the guard need not."""
        self._tell(_LEFT)

    def other(self, rank: int, process: int) -> None:
        """The watch of another rank is that process, or has left if it is 0.

        A launcher that sees a rank killed kills the others, this one among them: the guard reports
        the rank whose watch was the first to end.
        """
        self._tell(f"{_OTHER} {rank} {process}")

    def _tell(self, line: str) -> None:
        with suppress(OSError):  # the guard has ended
            os.write(self._pipe, f"{line}\n".encode())


class _Others:
    """The watches of other ranks: which of them has ended first."""

    def __init__(self, pipe: int) -> None:
        self._pipe = pipe
        self._ready = select.epoll()  # says what has ended in the order in which it did
        self._ready.register(pipe, select.EPOLLIN)
        self._ranks: dict[int, int] = {}
        """The rank of each process, by its descriptor."""
        self.ended: list[int] = []

    def set(self, rank: int, process: int) -> None:
        for descriptor in [each for each, other in self._ranks.items() if other == rank]:
            self._drop(descriptor)
        self.ended = [each for each in self.ended if each != rank]
        with suppress(OSError, AttributeError):  # it has ended, or the system cannot say when
            if process:
                descriptor = os.pidfd_open(process)
                self._ranks[descriptor] = rank
                self._ready.register(descriptor, select.EPOLLIN)

    def read(self) -> bytes:
        """The next data from the pipe; empty when its writer has ended."""
        while True:
            for descriptor, _ in self._ready.poll():
                if descriptor == self._pipe:  # what is ready after it ended after it
                    return os.read(self._pipe, 4096)
                self.ended.append(self._ranks[descriptor])
                self._drop(descriptor)

    def _drop(self, descriptor: int) -> None:
        del self._ranks[descriptor]
        os.close(descriptor)


def _wait(pipe: int, job: str, killed: str) -> None:
    os.setsid()  # launchers end process groups
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    _redirect(0, 1)  # readers of our output must not wait for this process
    os.closerange(3, pipe)
    os.closerange(pipe + 1, os.sysconf("SC_OPEN_MAX"))
    others = _Others(pipe)
    is_guarded = False
    rest = b""
    while data := others.read():
        *lines, rest = (rest + data).split(b"\n")
        for line in lines:
            kind, *numbers = line.decode().split()
            if kind == _OTHER:
                others.set(*map(int, numbers))
            else:
                is_guarded = kind == _GUARDED
    if not is_guarded:
        return
    claimed = jobs.claim(job) if job else None
    if job and claimed is None:
        return  # another process has taken it, and reports
    say(jobs.killed(others.ended[0]) if others.ended else killed)
    _redirect(2)
    time.sleep(_HOLD if job else 0)


def _redirect(*streams: int) -> None:
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in streams:
        os.dup2(nothing, stream)
