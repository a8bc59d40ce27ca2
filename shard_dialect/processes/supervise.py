"""Run a program in a child process, so that the parent can report a crash.

MLIR crashes on some files and in some passes. That ends the child, and the parent reports where it
was, as for any other error. It also shows what takes long (`progress.py`).
"""

from __future__ import annotations

import ctypes
import os
import select
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from types import FrameType

from shard_dialect.errors import flush, say, shown
from shard_dialect.processes.progress import Progress, is_child_of, where_shown
from shard_dialect.processes.to_parent import USER, WRITES, heard


def _signals(*names: str) -> tuple[signal.Signals, ...]:
    """The signals of these names that the system has."""
    return tuple(getattr(signal, name) for name in names if hasattr(signal, name))


_CRASHES = _signals("SIGSEGV", "SIGABRT", "SIGBUS", "SIGFPE", "SIGILL")
_ENDING = _signals("SIGINT", "SIGTERM", "SIGHUP")
_PR_SET_PDEATHSIG = 1


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


def compiler_in(what: str) -> str:
    """Whose code it was that crashed in what a program did.

    >>> compiler_in("the parser"), compiler_in("the compiler (--reference-by=xla)")
    ('MLIR', 'XLA')
    """
    return "XLA" if "=xla)" in what else "MLIR"


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


def supervised(
    program: Callable[[], int], *, stops_by_itself: bool = False, is_first: bool = True
) -> int:
    """Run `program` in a child; return its exit status, or 1 if it crashes, in both processes.

    Signals reach the parent, which ends the child, and reports it. On a terminal both get them, and
    the child ignores them, since C++ code would not handle them. With `stops_by_itself` the child
    gets the first SIGINT, to end with what it has: one that comes early waits until the child lets
    it through. Only the first of several ranks shows progress.
    """
    if not hasattr(os, "fork"):
        return program()
    flush()
    read, write = os.pipe()
    answers, answer = os.pipe()
    where = where_shown() if is_first else None
    parent = os.getpid()
    signal.pthread_sigmask(signal.SIG_BLOCK, _ENDING)
    child = os.fork()
    if child == 0:
        os.close(read)
        os.close(answer)
        end_with(parent)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        waiting = {signal.SIGINT} if stops_by_itself else set()
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {*_ENDING} - waiting)
        is_child_of(write, answers, where)
        return program()
    os.close(write)
    os.close(answers)
    listener = _Listener(read, Progress(answer, where))
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
        say(signalled(asked.number) + listener.in_code_of_user)
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


@contextmanager
def _unbroken() -> Iterator[None]:
    """Let signals wait until the `with` block is done."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _ENDING)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class _Listener:
    """Receives the child's messages, until the child has closed its end of `pipe`."""

    def __init__(self, pipe: int, progress: Progress) -> None:
        self._pipe = pipe
        self._progress = progress
        self._location, self._what = "", "its start"
        self._user = ""
        """The user's function that runs."""
        self._partial = ""
        self._rest = b""
        """What was read of a message that has not come to its end."""

    def listen(self, *, waits: bool = True) -> None:
        """Hear all that the child says; or what it has said, without waiting for more."""
        seconds = (0.25 if self._progress.is_shown else None) if waits else 0.0
        while True:
            self._progress.look()
            if not select.select([self._pipe], [], [], seconds)[0]:
                if not waits:
                    return
                continue
            with _unbroken():  # what is read, and not yet heard, would be lost
                data = os.read(self._pipe, 65536)
                *lines, self._rest = (self._rest + data).split(b"\n")
                for line in lines:
                    self._hear(*heard(line))
            if not data:
                self._progress.end()
                return

    def _hear(self, first: str, second: str) -> None:
        if self._progress.hear(first, second):
            return
        if first == WRITES:
            self._partial = second
            return
        if first == USER:
            self._user = second
            return
        self._location, self._what = first or self._location, second
        self._progress.begin(second)

    def end(self) -> None:
        """Clean up after a child that did not come to its own end."""
        with suppress(_Signalled):  # its own children may keep the pipe open
            self.listen(waits=False)
        self._progress.end()
        remove(self._partial)

    @property
    def in_code_of_user(self) -> str:
        """Where the child was, if that is a user's function, as the end of a message."""
        return f" in {shown(self._user)}" if self._user else ""

    def crash(self, status: int) -> str:
        """The message for a child that a signal has ended."""
        crash = crash_of(status)
        if crash is not None and self._user:
            return f"error: the program crashed ({crash.name}) in {shown(self._user)}"
        if crash is not None:
            where = f"{shown(self._location)}: " if self._location else ""
            who = compiler_in(self._what)
            return f"{where}error: {who} crashed ({crash.name}) in {shown(self._what)}"
        number = os.WTERMSIG(status)
        if number == signal.SIGKILL:
            return "error: killed (SIGKILL): perhaps the memory ran out"
        return signalled(number)
