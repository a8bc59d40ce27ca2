"""Changes of a text that keep the way back to its own columns."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Edit:
    """Replace `removed` characters at offset `start` by `added`."""

    start: int
    removed: int
    added: str


_COMMENT = re.compile(r'//[^\n]*|(?P<string>"(?:[^"\\\n]|\\.)*")')


def on_one_line(text: str) -> str:
    """The text without comments and newlines."""
    return _COMMENT.sub(lambda match: match["string"] or "", text).replace("\n", " ")


def edited(text: str, edits: Sequence[Edit]) -> str:
    """The text after `edits`, which are in order."""
    parts: list[str] = []
    end = 0
    for edit in edits:
        parts += [text[end : edit.start], edit.added]
        end = edit.start + edit.removed
    return "".join(parts) + text[end:]
