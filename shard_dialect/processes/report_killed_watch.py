"""Says that a watch was killed, which the watch itself cannot: a process beside it that only waits.

The watch that has the hub is guarded; of the others it is the hub that says so (`jobs.py`).
"""

from __future__ import annotations

import os
import signal
import time

from shard_dialect.errors import say
from shard_dialect.processes import jobs

_GUARDED, _LEFT = b"+", b"-"
_HOLD = 1.0
"""Seconds for which nobody else takes the place of the hub, and says the same."""


class Guard:
    """A process that ends with this one, and speaks if this one was `guarded` and has not left."""

    def __init__(self, job: str, killed: str) -> None:
        read, self._pipe = os.pipe()
        if os.fork() == 0:
            try:
                _wait(read, job, killed)
            finally:
                os._exit(0)
        os.close(read)

    def close(self) -> None:
        """In another process than the one that is guarded."""
        os.close(self._pipe)

    def guarded(self) -> None:
        """From here on it is for the guard to speak."""
        os.write(self._pipe, _GUARDED)

    def left(self) -> None:
        """All has been said."""
        os.write(self._pipe, _LEFT)


def _wait(pipe: int, job: str, killed: str) -> None:
    os.setsid()  # launchers end groups of processes
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    _redirect(0, 1)  # who reads what is printed shall not wait for this process
    os.closerange(3, pipe)
    os.closerange(pipe + 1, os.sysconf("SC_OPEN_MAX"))
    last = _LEFT
    while said := os.read(pipe, 64):
        last = said[-1:]
    if last != _GUARDED:
        return
    place = jobs.take(job) if job else None
    if job and place is None:
        return  # somebody else has taken it, and says so
    say(killed)
    _redirect(2)
    time.sleep(_HOLD if job else 0)


def _redirect(*streams: int) -> None:
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in streams:
        os.dup2(nothing, stream)
