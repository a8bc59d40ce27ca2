"""A program in a child process, so that the parent can say what the child no longer can.

MLIR crashes on some files and in some passes; that ends the child, and the parent says where it
was, as any other error. And while a C++ pass runs, no Python of the child does: it is the parent
that draws which pass is still running, once it has for two seconds and where stderr is a terminal.

A program that its launcher must know, as one of many ranks, stays the parent: then the child draws.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_SECONDS = 2
_CRASHES = tuple(
    getattr(signal, name)
    for name in ("SIGSEGV", "SIGABRT", "SIGBUS", "SIGFPE", "SIGILL")
    if hasattr(signal, name)
)
_parent: int | None = None
"""Where the process that draws listens."""
_RANKS = ("RANK", "PMI_RANK", "PMIX_RANK", "OMPI_COMM_WORLD_RANK")
"""What launchers tell of a process before it has joined the others."""


def doing(what: str, place: str = "") -> None:
    """Tell the other process, if there is one, what begins, and the place to name on a crash.

    Without a place, the one named last stays.
    """
    if _parent is not None:
        os.write(_parent, f"{place}\t{what}\n".encode())


def supervised(program: Callable[[], int]) -> int:
    """The exit status of `program`, run in a child; 1 if it crashes. Returns in both processes."""
    global _parent
    if not hasattr(os, "fork"):
        return program()
    read, write = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    child = os.fork()
    if child == 0:
        os.close(read)
        _parent = write
        return program()
    os.close(write)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the child gets it too, and says what then
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda number, _: os.kill(child, number))
    last = _listen(read)
    _, status = os.waitpid(child, 0)
    if not os.WIFSIGNALED(status):
        return os.waitstatus_to_exitcode(status)
    ended_by = signal.Signals(os.WTERMSIG(status))
    if ended_by not in _CRASHES:
        signal.signal(ended_by, signal.SIG_DFL)
        os.kill(os.getpid(), ended_by)
    place, _, what = last.partition("\t")
    where = f"{place}: " if place else ""
    print(f"{where}error: MLIR crashed ({ended_by.name}) in {what or 'its start'}", file=sys.stderr)
    return 1


@contextmanager
def drawing() -> Iterator[None]:
    """Draw what `doing` tells, from a child; of several ranks the first one does."""
    global _parent
    is_first = next((os.environ[each] for each in _RANKS if each in os.environ), "0") == "0"
    if not is_first or not hasattr(os, "fork") or not sys.stderr.isatty():
        yield
        return
    read, write = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    child = os.fork()
    if child == 0:
        try:
            os.close(write)
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            _listen(read)
        finally:
            os._exit(0)
    os.close(read)
    _parent = write
    try:
        yield
    finally:
        _parent = None
        os.close(write)
        os.waitpid(child, 0)


def _listen(pipe: int) -> str:
    """What the child said last, `place<tab>what`, once it has closed its end."""
    draws = sys.stderr.isatty()
    place, what, rest = "", "", b""
    since, is_drawn = time.monotonic(), False
    while True:
        ready = select.select([pipe], [], [], 0.5 if draws else None)[0]
        if not ready:
            if what and time.monotonic() - since >= _SECONDS:
                _draw(f"{what[:60]}: {time.monotonic() - since:.0f} s\r")
                is_drawn = True
            continue
        said = os.read(pipe, 65536)
        if is_drawn:
            _draw("")
            is_drawn = False
        if not said:
            return f"{place}\t{what}"
        *lines, rest = (rest + said).split(b"\n")
        for line in lines:
            new, _, what = line.decode().partition("\t")
            place, since = new or place, time.monotonic()


def _draw(text: str) -> None:
    os.write(sys.stderr.fileno(), b"\r\x1b[K" + text.encode())
