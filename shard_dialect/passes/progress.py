"""A line on a terminal that says which pass is still running, once it has for two seconds.

A C++ pass holds the interpreter until it is done, so no thread of ours could draw the line: another
process does. It is told what runs through a pipe, and erases the line when that changes.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import IO, TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    import subprocess

_DRAWS = """
import os, select, signal, sys, time
signal.signal(signal.SIGINT, signal.SIG_IGN)  # who started us tells us the end
label, since, drawn, asked = "", 0.0, False, b""
while True:
    if select.select([0], [], [], 0.5 if label else None)[0]:
        asked += os.read(0, 65536)
        if drawn:
            os.write(2, b"\\r\\x1b[K")
        if not asked.endswith(b"\\n"):
            break
        label, since, drawn, asked = asked.decode().splitlines()[-1], time.monotonic(), False, b""
    elif time.monotonic() - since >= 2:
        text = "%s: %d s" % (label[:60], time.monotonic() - since)
        os.write(2, b"\\r\\x1b[K" + text.encode() + b"\\r")
        drawn = True
"""

Op = TypeVar("Op")


class Progress:
    """What runs now: `first`, until a callback that `around` made says otherwise."""

    def __init__(self, shown: bool, first: str = "") -> None:
        self._shown = shown
        self._first = first
        self._painter: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> None:
        if self._shown:
            import subprocess  # takes 5 ms, for terminals only

            command = [sys.executable, "-I", "-S", "-c", _DRAWS]
            self._painter = subprocess.Popen(command, stdin=subprocess.PIPE)
            self._now(self._first)

    def __exit__(self, *_: object) -> None:
        painter, self._painter = self._painter, None
        if painter:
            painter.communicate()

    def around(
        self, callback: Callable[[Op, object], None], name: str, after: str
    ) -> Callable[[Op, object], None]:
        """`callback`, for a pass called `name`; `after` is what runs when it is done."""

        def observed(op: Op, handle: object) -> None:
            self._now(name)
            callback(op, handle)
            self._now(after)

        return observed if self._shown else callback

    def _now(self, label: str) -> None:
        pipe: IO[bytes] | None = self._painter.stdin if self._painter else None
        if pipe:
            try:
                pipe.write(label.encode() + b"\n")
                pipe.flush()
            except BrokenPipeError:  # it was killed: no reason to stop
                self._painter = None
