"""The text of a file as code: comments and strings blanked, every offset as it was."""

from __future__ import annotations

import re

_ASIDE = re.compile(r'//[^\n]*|"(?:[^"\\\n]|\\.)*"')
_NAME = re.compile(r'"[\w.$-]+"')


def code_of(text: str) -> str:
    """Spaces in place of comments and strings; a quoted name stays, it may be an op's."""
    return _ASIDE.sub(lambda match: _blank(match[0]), text)


def _blank(aside: str) -> str:
    return aside if _NAME.fullmatch(aside) else " " * len(aside)
