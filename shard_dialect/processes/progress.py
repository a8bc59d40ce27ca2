"""What a program is doing and how far it is, once it takes longer than two seconds.

    14 of 41 passes: insert-collectives: 12 s               in one line of a terminal
    note: after 15 s: 14 of 41 passes: insert-collectives   in a log, after 5 s and each 10 s then

The process that watches the program shows it (`Progress`), since no Python of the program runs
while a C++ pass does. The program tells what begins and how far it is (`to_parent`). Before either
process prints anything, the line on the terminal goes away: `aside`, of which `errors.say` and
standard output make use. The environment variable SHARD_DIALECT_PROGRESS=0 switches all of it off.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Literal

from shard_dialect.errors import let_go_aside, shown
from shard_dialect.processes.to_parent import FAR, ask, listened, tell

VARIABLE = "SHARD_DIALECT_PROGRESS"
"""The environment variable that is `0` to show nothing."""
_SECONDS = 2.0
"""Nothing is shown of a program that takes no longer."""
_REDRAWN = 0.25
"""The seconds between two drawings on a terminal."""
_FIRST, _LOGGED = 5.0, 10.0
"""The seconds until the first line in a log, and between two lines."""
_ASIDE, _BACK, _RESULT = "!aside", "!back", "!result"
"""The kinds of messages that the child sends, besides its present step and its counts."""
Where = Literal["terminal", "log"] | None


def where_shown() -> Where:
    """Whether standard error is a terminal or a log; `None` if nothing is to be shown there."""
    if os.environ.get(VARIABLE) == "0" or sys.stderr is None:
        return None
    with suppress(OSError, ValueError):
        return "terminal" if os.isatty(sys.stderr.fileno()) else "log"
    return None


def is_child_of(pipe: int, answers: int, where: Where) -> None:
    """In a child: the parent at the other end of these pipes shows how far it is."""
    on_terminal = where == "terminal"
    listened(pipe, answers if on_terminal else None)
    if on_terminal:
        let_go_aside(_out_of_the_way)


@contextmanager
def _out_of_the_way(is_result: bool) -> Iterator[None]:
    """In the child: nothing is shown within the `with` block, nor after a result until a step."""
    ask(_ASIDE)
    try:
        yield
    finally:
        tell(_RESULT if is_result else _BACK)


class Progress:
    """In the parent: shows what the child tells; only one rank of several does."""

    def __init__(self, answers: int, where: Where) -> None:
        self._answers = answers
        self._where = where
        self._begun = time.monotonic()
        self._logged = self._begun + _FIRST - _LOGGED
        self._what = "its start"
        self._far = self._waits = ""
        self._asides = 0
        """How many are printing inside of each other."""
        self._has_result = False
        """Whether a result was printed, and no step has begun since."""
        self._drawn = ""
        self._drawn_at = 0.0
        if where == "terminal":
            let_go_aside(self._cleared)

    @property
    def is_shown(self) -> bool:
        """Whether `look` is to be called from time to time."""
        return self._where is not None

    def begin(self, what: str) -> None:
        """Record what begins."""
        self._what = what
        self._has_result = False

    def wait(self, for_what: str) -> None:
        """Record what the parent itself waits for, if for anything."""
        self._waits = for_what

    def hear(self, first: str, second: str) -> bool:
        """Whether a message of the child was one about its progress."""
        if first == FAR:
            self._far = second
        elif first == _ASIDE:
            self.clear()
            self._asides += 1
            with suppress(OSError):  # the child has ended
                os.write(self._answers, b".")
        elif first in (_BACK, _RESULT):
            self._asides -= 1
            self._has_result = self._has_result or first == _RESULT
        else:
            return False
        return True

    def look(self) -> None:
        """Update what is shown; to be called more than once per second."""
        now = time.monotonic()
        text = ": ".join(filter(None, (self._waits, self._far, shown(self._what))))
        seconds = now - self._begun
        if not text or self._asides or self._has_result or seconds < _SECONDS:
            return
        if self._where == "log" and now - self._logged >= _LOGGED:
            self._logged = now
            _write(f"note: after {seconds:.0f} s: {text}\n")
        elif self._where == "terminal" and now - self._drawn_at >= _REDRAWN:
            line = _fitted(text, f": {seconds:.0f} s")
            if line != self._drawn:
                _write(f"\r\x1b[K{line}\r")
                self._drawn, self._drawn_at = line, now

    def clear(self) -> None:
        """Remove what is shown."""
        if self._drawn:
            _write("\r\x1b[K")
            self._drawn = ""

    def end(self) -> None:
        """Remove what is shown: the child has ended, or is about to."""
        self.clear()
        self._where = None

    @contextmanager
    def _cleared(self, _: bool) -> Iterator[None]:
        self.clear()
        yield


def _fitted(text: str, end: str) -> str:
    """Text and end in one line of the terminal."""
    try:
        columns = os.get_terminal_size(sys.stderr.fileno()).columns or 80
    except OSError:
        columns = 80
    most = max(columns - 1 - len(end), 1)
    return (text if len(text) <= most else f"{text[: most - 1]}…") + end


def _write(text: str) -> None:
    with suppress(OSError, ValueError):  # stderr is closed
        os.write(sys.stderr.fileno(), text.encode(errors="replace"))
