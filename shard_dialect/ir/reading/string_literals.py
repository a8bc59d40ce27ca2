"""MLIR's string literals: any bytes, in quotes."""

from __future__ import annotations

import re

from shard_dialect.errors import quoted

__all__ = ["quoted", "unquoted"]

_ESCAPE = re.compile(rb'\\(?:([0-9A-Fa-f]{2})|([\\"nt]))')
_MEANT = {b"\\": b"\\", b'"': b'"', b"n": b"\n", b"t": b"\t"}


def unquoted(token: str) -> str:
    r"""The value of a string literal. Bytes that are not UTF-8 are surrogates, as in file names.

    >>> unquoted('"a\\22\\0A\\\\\\n"') == 'a"\n\\\n'
    True
    """

    def meant(match: re.Match[bytes]) -> bytes:
        return bytes([int(match[1], 16)]) if match[1] else _MEANT[match[2]]

    data = token[1:-1].encode(errors="surrogateescape")
    return _ESCAPE.sub(meant, data).decode(errors="surrogateescape")
