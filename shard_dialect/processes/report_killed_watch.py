"""A process that only waits, to report that a watch was killed, which the watch itself cannot.

The watch that has the hub is guarded; the hub reports it for the other watches (`jobs.py`).
"""

from __future__ import annotations

import os
import signal
import time

from shard_dialect.errors import say
from shard_dialect.processes import jobs

_GUARDED, _LEFT = b"+", b"-"
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
        os.write(self._pipe, _GUARDED)

    def left(self) -> None:
        """Everything is reported, so the guard need not."""
        os.write(self._pipe, _LEFT)


def _wait(pipe: int, job: str, killed: str) -> None:
    os.setsid()  # launchers end process groups
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    _redirect(0, 1)  # readers of our output must not wait for this process
    os.closerange(3, pipe)
    os.closerange(pipe + 1, os.sysconf("SC_OPEN_MAX"))
    last = _LEFT
    while message := os.read(pipe, 64):
        last = message[-1:]
    if last != _GUARDED:
        return
    claimed = jobs.claim(job) if job else None
    if job and claimed is None:
        return  # another process has taken it, and reports
    say(killed)
    _redirect(2)
    time.sleep(_HOLD if job else 0)


def _redirect(*streams: int) -> None:
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in streams:
        os.dup2(nothing, stream)
