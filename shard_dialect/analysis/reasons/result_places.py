"""Where the text of a file has the results of a function, which MLIR gives no locations.

func.func @main(%x: tensor<4xf32>) -> (tensor<4xf32> {...}, tensor<f32>)
                                       ^ 1:40               ^ 1:61
"""

from __future__ import annotations

import re
from collections.abc import Iterator

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|//[^\n]*|->|[()\[\]{}<>,]')
_CLOSING = dict(zip("([{<", ")]}>", strict=True))


def result_places(text: str, function: str | None) -> list[str]:
    """The places of a function's results, given that of the function, all as `file:line:col`.

    Empty if the function is not there in the text.
    """
    found = re.fullmatch(r"(.*):(\d+):(\d+)", function or "", re.DOTALL)
    if found is None:
        return []
    file, line, column = found[1], int(found[2]), int(found[3])
    lines = text.splitlines(keepends=True)
    begin = sum(map(len, lines[: line - 1])) + column - 1
    if not text.startswith("func.func", begin):
        return []
    return [f"{file}:{_line_and_column(text, each)}" for each in _results(text, begin)]


def _results(text: str, begin: int) -> Iterator[int]:
    """The positions in a text at which the types of the results begin."""
    arguments = text.find("(", begin)
    after = _end(text, arguments) if arguments >= 0 else None
    arrow = re.compile(r"\s*->\s*").match(text, after) if after is not None else None
    if arrow is None:
        return
    if not text.startswith("(", arrow.end()):
        yield arrow.end()
        return
    for each in _parts(text, arrow.end()):
        start = re.compile(r"\s*").match(text, each)
        assert start is not None, "it matches nothing, too"
        yield start.end()


def _end(text: str, begin: int) -> int | None:
    """What is after the bracket that closes the one at `begin`."""
    expected: list[str] = []
    for token in _TOKEN.finditer(text, begin):
        if token[0] in _CLOSING:
            expected.append(_CLOSING[token[0]])
        elif expected and token[0] == expected[-1]:
            expected.pop()
            if not expected:
                return token.end()
    return None


def _parts(text: str, begin: int) -> Iterator[int]:
    """What is after the bracket at `begin`, and after each comma in it."""
    expected: list[str] = []
    for token in _TOKEN.finditer(text, begin):
        if token[0] in _CLOSING:
            expected.append(_CLOSING[token[0]])
            if len(expected) == 1:
                yield token.end()
        elif token[0] == expected[-1]:
            expected.pop()
            if not expected:
                return
        elif token[0] == "," and len(expected) == 1:
            yield token.end()


def _line_and_column(text: str, position: int) -> str:
    before = text[:position]
    return f"{before.count(chr(10)) + 1}:{position - (before.rfind(chr(10)) + 1) + 1}"
