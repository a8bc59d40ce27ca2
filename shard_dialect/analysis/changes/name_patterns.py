"""Values by a name in which `*` stands for any text; all other letters stand for themselves.

MLIR's `%` may stand before a name or not, wherever a value is named.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TypeVar

T = TypeVar("T")


def called(pattern: str, named: Iterable[tuple[T, tuple[str, ...]]]) -> list[T]:
    """Those that have just this name, or, if none has, those of which a name matches.

    >>> named = [(0, ("arg0", "p['a']")), (1, ("arg1", "p['b']")), (2, ("arg2", "x*"))]
    >>> called("p['a']", named), called("p[*]", named), called("x*", named), called("arg?", named)
    ([0], [0, 1], [2], [])
    >>> called("%arg1", named), called("%p[*]", named)
    ([1], [0, 1])
    """
    listed = list(named)
    exact = [each for each, names in listed if pattern in names]
    if exact:
        return exact
    if pattern.startswith("%"):
        return called(pattern[1:], listed)
    any_text = re.compile(".*".join(map(re.escape, pattern.split("*"))), re.DOTALL)
    return [each for each, names in listed if any(map(any_text.fullmatch, names))]
