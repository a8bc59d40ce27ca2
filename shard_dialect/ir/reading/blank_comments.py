"""Blanks the comments and strings of a file; all offsets stay the same."""

from __future__ import annotations

import re

_ASIDE = re.compile(r'//[^\n]*|"(?:[^"\\\n]|\\.)*"')
_NAME = re.compile(r'"[\w.$-]+"')


def code_of(text: str) -> str:
    """The text with spaces for comments and strings, except quoted names, which may be an op's."""
    return _ASIDE.sub(lambda match: _blank(match[0]), text)


def _blank(aside: str) -> str:
    return aside if _NAME.fullmatch(aside) else " " * len(aside)
