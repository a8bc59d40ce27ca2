"""Run a program in a child process, so that the parent can report a crash.

MLIR crashes on some files and in some passes. That ends the child, and the parent reports where it
was, as for any other error. While a C++ pass runs, no Python of the child does. So the parent shows
which pass is running, once it has run for two seconds, if stderr is a terminal.
"""

from __future__ import annotations

import ctypes
import os
import select
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from types import FrameType

from shard_dialect.errors import flush, say, shown

_SECONDS = 2


def _signals(*names: str) -> tuple[signal.Signals, ...]:
    """The signals of these names that the system has."""
    return tuple(getattr(signal, name) for name in names if hasattr(signal, name))


_CRASHES = _signals("SIGSEGV", "SIGABRT", "SIGBUS", "SIGFPE", "SIGILL")
_ENDING = _signals("SIGINT", "SIGTERM", "SIGHUP")
_PR_SET_PDEATHSIG = 1
WRITES = "!writes"
"""The message of the child before it writes to a file, and again without a name afterwards."""
_parent: int | None = None
"""In the child: the pipe to the parent."""
_now = ("", "its start")


def doing(what: str, location: str = "") -> None:
    """Tell the parent, if there is one, what begins, and the location to report for a crash.

    Without a location, the last one stays.
    """
    global _now
    _now = (location or _now[0], what)
    tell(location, what)


def what_is_done() -> tuple[str, str]:
    """The location and the text that `doing` was given last."""
    return _now


def tell(first: str, second: str = "") -> None:
    """Send the parent, if there is one, a line of two fields, escaped."""
    if _parent is not None:
        fields = (each.encode("unicode_escape") for each in (first, second))
        os.write(_parent, b"\t".join(fields) + b"\n")


def heard(line: bytes) -> tuple[str, str]:
    """The two fields of a line."""
    first, _, second = line.partition(b"\t")
    return first.decode("unicode_escape"), second.decode("unicode_escape")


def is_watched() -> bool:
    """Whether a parent listens."""
    return _parent is not None


def listened(pipe: int) -> None:
    """In a child: from here on the parent listens at the other end of `pipe`."""
    global _parent
    _parent = pipe


def end_with(parent: int) -> None:
    """Let the system end this process when `parent`, which has started it, ends."""
    try:
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    except (OSError, AttributeError):
        return
    if os.getppid() != parent:
        os._exit(1)


def crash_of(status: int) -> signal.Signals | None:
    """The signal that ended a process, if it is one of a crash."""
    ended_by = signal.Signals(os.WTERMSIG(status)) if os.WIFSIGNALED(status) else None
    return ended_by if ended_by in _CRASHES else None


def signalled(number: int) -> str:
    """The message for a program that a signal has ended."""
    name = signal.Signals(number).name
    return "error: interrupted" if number == signal.SIGINT else f"error: ended by {name}"


def remove(partial: str) -> None:
    """Remove the partial file of a child that was ended, if it exists."""
    if partial:
        with suppress(OSError):
            os.unlink(partial)


class _Signalled(BaseException):
    """A signal asks this process to end."""

    def __init__(self, number: int) -> None:
        self.number = number


def supervised(program: Callable[[], int], *, stops_by_itself: bool = False) -> int:
    """Run `program` in a child; return its exit status, or 1 if it crashes, in both processes.

    Signals reach the parent, which ends the child, and reports it. On a terminal both get them, and
    the child ignores them, since C++ code would not handle them. With `stops_by_itself` the child
    gets the first SIGINT, to end with what it has.
    """
    if not hasattr(os, "fork"):
        return program()
    flush()
    read, write = os.pipe()
    parent = os.getpid()
    signal.pthread_sigmask(signal.SIG_BLOCK, _ENDING)
    child = os.fork()
    if child == 0:
        os.close(read)
        end_with(parent)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _ENDING)
        listened(write)
        return program()
    os.close(write)
    listener = _Listener(read)
    try:
        for number in _ENDING:
            signal.signal(number, _raise)
        if stops_by_itself:
            signal.signal(signal.SIGINT, partial(_pass_on, child))
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _ENDING)
        listener.listen()
        _, status = os.waitpid(child, 0)
    except _Signalled as asked:
        for number in _ENDING:
            signal.signal(number, signal.SIG_IGN)
        with suppress(ProcessLookupError, ChildProcessError):  # it may have ended already
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
        listener.end()
        say(signalled(asked.number))
        return 1
    if not os.WIFSIGNALED(status):
        return os.waitstatus_to_exitcode(status)
    listener.end()
    say(listener.crash(status))
    return 1


def _pass_on(child: int, number: int, _: FrameType | None) -> None:
    """Give a signal to the child; the next one ends it."""
    signal.signal(number, _raise)
    with suppress(ProcessLookupError):
        os.kill(child, number)


def _raise(number: int, _: FrameType | None) -> None:
    raise _Signalled(number)


class Progress:
    """Shows what is running, once it takes long, if stderr is a terminal."""

    def __init__(self, *, draws: bool = True) -> None:
        self.draws = draws and sys.stderr is not None and sys.stderr.isatty()
        self._what = ""
        self._since = time.monotonic()
        self._drawn = 0

    def begin(self, what: str) -> None:
        """Record what begins."""
        self.clear()
        self._what, self._since = what, time.monotonic()

    def look(self) -> None:
        """Update the display; to be called more than once per second."""
        seconds = int(time.monotonic() - self._since)
        if self.draws and self._what and seconds >= _SECONDS and seconds != self._drawn:
            _draw(f"{shown(self._what)[:60]}: {seconds} s\r")
            self._drawn = seconds

    def clear(self) -> None:
        """Remove the display."""
        if self._drawn:
            _draw("")
            self._drawn = 0


class _Listener:
    """Receives the child's messages, until the child has closed its end of `pipe`."""

    def __init__(self, pipe: int) -> None:
        self._pipe = pipe
        self._progress = Progress()
        self._location, self._what = "", "its start"
        self._partial = ""

    def listen(self) -> None:
        rest = b""
        seconds = 0.5 if self._progress.draws else None
        while True:
            if not select.select([self._pipe], [], [], seconds)[0]:
                self._progress.look()
                continue
            data = os.read(self._pipe, 65536)
            if not data:
                self._progress.clear()
                return
            *lines, rest = (rest + data).split(b"\n")
            for line in lines:
                self._hear(*heard(line))

    def _hear(self, first: str, second: str) -> None:
        if first == WRITES:
            self._partial = second
            return
        self._location, self._what = first or self._location, second
        self._progress.begin(second)

    def end(self) -> None:
        """Clean up after a child that did not come to its own end."""
        with suppress(_Signalled):
            os.set_blocking(self._pipe, False)
            with suppress(BlockingIOError):
                self.listen()
        self._progress.clear()
        remove(self._partial)

    def crash(self, status: int) -> str:
        """The message for a child that a signal has ended."""
        crash = crash_of(status)
        if crash is not None:
            where = f"{shown(self._location)}: " if self._location else ""
            return f"{where}error: MLIR crashed ({crash.name}) in {shown(self._what)}"
        number = os.WTERMSIG(status)
        if number == signal.SIGKILL:
            return "error: killed (SIGKILL): perhaps the memory ran out"
        return signalled(number)


def _draw(text: str) -> None:
    os.write(sys.stderr.fileno(), b"\r\x1b[K" + text.encode())
