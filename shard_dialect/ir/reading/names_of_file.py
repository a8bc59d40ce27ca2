"""The names that a file gives to the results of its ops, which MLIR does not keep."""

from __future__ import annotations

import re

from shard_dialect.ir.reading.spelling import code_of

_NAME = re.compile(r"%[A-Za-z_][\w$.-]*")
_DEFINED = re.compile(r"^\s*(?P<names>%[\w$.-]+(?::\d+)?(?:\s*,\s*%[\w$.-]+(?::\d+)?)*)\s*=", re.M)


def lines_defining(name: str, text: str) -> tuple[int, ...]:
    r"""The numbers of the lines on which ops define `name`; none for a number, as in `%3`.

    Values have other numbers where they are printed.

    >>> lines_defining("%h", "%0 = f()\n%h, %g = f()\n// %h = f()\n%hh = f(%h)")
    (2,)
    >>> lines_defining("%0", "%0 = f()")
    ()
    """
    if not _NAME.fullmatch(name):
        return ()
    code = code_of(text)
    return tuple(
        code.count("\n", 0, match.start("names")) + 1
        for match in _DEFINED.finditer(code)
        if name in re.findall(r"%[\w$.-]+", match["names"])
    )
