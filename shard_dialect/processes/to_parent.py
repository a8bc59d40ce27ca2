"""What a child tells the process that watches it: lines of two fields, through a pipe.

`doing` says what begins, so that the parent can report where a crash was, and show what takes long.
Both watches hear it: that of `opt` and `report` (`supervise.py`), and that of a rank (`watch.py`).
"""

from __future__ import annotations

import os
import select
from collections.abc import Iterator
from contextlib import contextmanager

WRITES = "!writes"
"""The message before a file is written, and again without a name afterwards."""
USER = "!user"
"""The message before a user's function is called, and again without a name afterwards."""
_ANSWERED = 1.0
"""The seconds that the parent has for an answer; it may be waiting for other ranks."""
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
