"""A program in a child process, so that the parent can say what the child no longer can.

MLIR crashes on some files and in some passes; that ends the child, and the parent says where it
was, as any other error. And while a C++ pass runs, no Python of the child does: it is the parent
that draws which pass is still running, once it has for two seconds and where stderr is a terminal.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import time
from collections.abc import Callable

from shard_dialect.errors import say, shown

_SECONDS = 2
_CRASHES = tuple(
    getattr(signal, name)
    for name in ("SIGSEGV", "SIGABRT", "SIGBUS", "SIGFPE", "SIGILL")
    if hasattr(signal, name)
)
_parent: int | None = None
"""In the child: where the parent listens."""


def doing(what: str, place: str = "") -> None:
    """Tell the parent, if there is one, what begins, and the place to name should it crash.

    Without a place, the one named last stays.
    """
    tell(place, what)


def tell(first: str, second: str = "") -> None:
    """Send the parent, if there is one, a line of two fields."""
    if _parent is not None:
        os.write(_parent, f"{shown(first)}\t{shown(second)}\n".encode())


def is_watched() -> bool:
    """Whether there is a parent that listens."""
    return _parent is not None


def listened(pipe: int) -> None:
    """In a child: from here on the parent listens at the other end of `pipe`."""
    global _parent
    _parent = pipe


def crash_of(status: int) -> signal.Signals | None:
    """The signal by which a program crashes that ended a process, if that is how it ended."""
    ended_by = signal.Signals(os.WTERMSIG(status)) if os.WIFSIGNALED(status) else None
    return ended_by if ended_by in _CRASHES else None


def supervised(program: Callable[[], int]) -> int:
    """The exit status of `program`, run in a child; 1 if it crashes. Returns in both processes."""
    if not hasattr(os, "fork"):
        return program()
    read, write = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    child = os.fork()
    if child == 0:
        os.close(read)
        listened(write)
        return program()
    os.close(write)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the child gets it too, and says what then
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda number, _: os.kill(child, number))
    last = _listen(read)
    _, status = os.waitpid(child, 0)
    if not os.WIFSIGNALED(status):
        return os.waitstatus_to_exitcode(status)
    crash = crash_of(status)
    if crash is None:
        return _end_by(signal.Signals(os.WTERMSIG(status)))
    place, _, what = last.partition("\t")
    where = f"{place}: " if place else ""
    say(f"{where}error: MLIR crashed ({crash.name}) in {what or 'its start'}")
    return 1


def _end_by(number: signal.Signals) -> int:
    """End as the child did."""
    if number == signal.SIGKILL:
        say("error: killed (SIGKILL): perhaps the memory ran out")
        return 1
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
    return 1


class Progress:
    """Draws what is being done, once it takes long, where stderr is a terminal."""

    def __init__(self, *, draws: bool = True) -> None:
        self.draws = draws and sys.stderr.isatty()
        self._what = ""
        self._since = time.monotonic()
        self._drawn = 0

    def begin(self, what: str) -> None:
        self.clear()
        self._what, self._since = what, time.monotonic()

    def look(self) -> None:
        """To be called more than once in a second."""
        seconds = int(time.monotonic() - self._since)
        if self.draws and self._what and seconds >= _SECONDS and seconds != self._drawn:
            _draw(f"{self._what[:60]}: {seconds} s\r")
            self._drawn = seconds

    def clear(self) -> None:
        if self._drawn:
            _draw("")
            self._drawn = 0


def _listen(pipe: int) -> str:
    """What the child said last, `place<tab>what`, once it has closed its end."""
    progress = Progress()
    place, what, rest = "", "", b""
    while True:
        ready = select.select([pipe], [], [], 0.5 if progress.draws else None)[0]
        if not ready:
            progress.look()
            continue
        said = os.read(pipe, 65536)
        if not said:
            progress.clear()
            return f"{place}\t{what}"
        *lines, rest = (rest + said).split(b"\n")
        for line in lines:
            new, _, what = os.fsdecode(line).partition("\t")
            place = new or place
            progress.begin(what)


def _draw(text: str) -> None:
    os.write(sys.stderr.fileno(), b"\r\x1b[K" + text.encode())
