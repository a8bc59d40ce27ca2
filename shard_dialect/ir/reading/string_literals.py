"""MLIR's string literals: any bytes, in quotes."""

from __future__ import annotations

import re

_ESCAPE = re.compile(rb'\\(?:([0-9A-Fa-f]{2})|([\\"nt]))')
_MEANT = {b"\\": b"\\", b'"': b'"', b"n": b"\n", b"t": b"\t"}


def quoted(text: str) -> str:
    r"""The string literal of `text`, as MLIR prints it.

    >>> print(quoted('a"\n\\é'))
    "a\22\0A\\\C3\A9"
    """
    data = text.encode(errors="surrogateescape")
    return '"' + "".join(map(_escaped, data)) + '"'


def _escaped(byte: int) -> str:
    if byte == ord("\\"):
        return "\\\\"
    return chr(byte) if 32 <= byte < 127 and byte != ord('"') else f"\\{byte:02X}"


def unquoted(token: str) -> str:
    r"""The value of a string literal. Bytes that are not UTF-8 are surrogates, as in file names.

    >>> unquoted('"a\\22\\0A\\\\\\n"') == 'a"\n\\\n'
    True
    """

    def meant(match: re.Match[bytes]) -> bytes:
        return bytes([int(match[1], 16)]) if match[1] else _MEANT[match[2]]

    data = token[1:-1].encode(errors="surrogateescape")
    return _ESCAPE.sub(meant, data).decode(errors="surrogateescape")
