"""What a child tells the process that watches it: lines of two fields, through a pipe.

`doing` says what begins, so that the parent can report where a crash was, and show what takes long.
Both watches hear it: that of `opt` and `report` (`supervise.py`), and that of a rank (`watch.py`).
It also tells how far it is:

    with Count("collectives", 12, "--suggest") as count:
        count.done(3)
    for op in counted(ops, "ops"): ...

Counts stand inside of each other, as the passes that each step of `--suggest` runs.
"""

from __future__ import annotations

import os
import select
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

WRITES = "!writes"
"""The message before a file is written, and again without a name afterwards."""
USER = "!user"
"""The message before a user's function is called, and again without a name afterwards."""
FAR = "!far"
"""The message with all counts."""
_ANSWERED = 1.0
"""The seconds that the parent has for an answer; it may be waiting for other ranks."""
_SENT = 0.1
"""The seconds between two counts of many small things."""
T = TypeVar("T")
_parent: int | None = None
"""In the child: the pipe to the parent."""
_answers: int | None = None
"""In the child: the pipe from the parent, if it answers."""
_now = ("", "its start")


def doing(what: str, location: str = "") -> None:
    """Tell the parent, if there is one, what begins, and the location to report for a crash.

    Without a location, the last one stays.
    """
    global _now
    _now = (location or _now[0], what)
    tell(location, what)


@contextmanager
def during(what: str, location: str = "") -> Iterator[None]:
    """As `doing`; what was done before goes on after the `with` block, but for an error in it."""
    _, before = _now
    doing(what, location)
    yield
    doing(before)


def what_is_done() -> tuple[str, str]:
    """The location and the text that `doing` was given last."""
    return _now


def tell(first: str, second: str = "") -> None:
    """Send the parent, if there is one, a line of two fields, escaped."""
    if _parent is not None:
        fields = (each.encode("unicode_escape") for each in (first, second))
        os.write(_parent, b"\t".join(fields) + b"\n")


def ask(first: str) -> None:
    """As `tell`; then wait until the parent has done what is asked, if it answers."""
    tell(first)
    if _answers is not None and select.select([_answers], [], [], _ANSWERED)[0]:
        os.read(_answers, 1)


def heard(line: bytes) -> tuple[str, str]:
    """The two fields of a line."""
    first, _, second = line.partition(b"\t")
    return first.decode("unicode_escape"), second.decode("unicode_escape")


def is_watched() -> bool:
    """Whether a parent listens."""
    return _parent is not None


def listened(pipe: int, answers: int | None = None) -> None:
    """In a child: from here on the parent listens at the other end of `pipe`."""
    global _parent, _answers
    _parent, _answers = pipe, answers


_counts: list[str] = []
"""In the child: the counts that stand inside of each other, the outermost first."""


class Count:
    """A count of `of` things, if so many are known, within a `with` block."""

    def __init__(self, unit: str, of: float | None = None, name: str = "") -> None:
        self._unit, self._of, self._name = unit, of, name
        self._at = 0
        self._is_told = False

    def __enter__(self) -> Count:
        self._at, self._is_told = len(_counts), False
        _counts.append("")
        return self

    def done(self, number: float, more: str = "") -> None:
        """Tell how many are done, and more about them."""
        if not is_watched() or self._at >= len(_counts):
            return
        of = "" if self._of is None else f"of {self._of:.0f} "
        count = "" if self._of == 1 else f"{number:.0f} {of}{self._unit}"
        _counts[self._at] = ", ".join(filter(None, (self._name, count, more)))
        self._is_told = True
        _tell_counts()

    def __exit__(self, *_: object) -> None:
        del _counts[self._at :]
        if self._is_told:
            _tell_counts()


def counted(things: Sequence[T], unit: str, name: str = "") -> Iterator[T]:
    """The things one by one, of which as many are done as were taken before."""
    told = 0.0 if name else time.monotonic()
    with Count(unit, len(things), name) as count:
        for number, thing in enumerate(things):
            now = time.monotonic()
            if now - told > _SENT:
                count.done(number)
                told = now
            yield thing


def _tell_counts() -> None:
    tell(FAR, ", ".join(filter(None, _counts)))
