"""Rewrites Shardy's generic text so that bindings without Shardy parse it.

    "sdy.reshard"(%0) <{sharding = ...}>            properties become attributes, since the
                                                    bindings cannot read those of unregistered ops
    "sdy.named_computation"(%0) <{...}> ({ call })  gets a second, empty region, since MLIR does not
                                                    resolve symbols in the only region of such an op

The number of lines stays the same, so that locations stay valid.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from shard_dialect.ir.reading.blank_comments import code_of
from shard_dialect.ir.reading.edits import Edit

_OP = re.compile(r'"sdy\.\w+"\s*\([^()]*\)\s*')
_COMMENT = re.compile(r'//[^\n]*|(?P<string>"(?:[^"\\\n]|\\.)*")')
_CALL = re.compile(r'\bcall\b|"func\.call"')
_PAIRS = {"{": "}", "(": ")"}


def edits(text: str) -> list[Edit]:
    """The edits that make Shardy's ops in `text` parse, in order.

    An op with regions has edits before and after those of the ops inside it.
    """
    if '"sdy.' not in text:
        return []
    code = code_of(text)
    changes = [edit for match in _OP.finditer(code) for edit in _of_op(code, text, match.end())]
    return sorted(changes, key=lambda edit: edit.start)


def _of_op(code: str, text: str, at: int) -> Iterator[Edit]:
    """The edits of one op, whose operands end at `at`."""
    properties = ""
    if code.startswith("<{", at):
        end = _end_of(code, at + 1)
        if end is None or code[end : end + 1] != ">":
            return  # not MLIR; the parser reports it
        # The properties move to one line, and their newlines stay: locations stay valid.
        moved = _COMMENT.sub(lambda match: match["string"] or "", text[at + 2 : end - 1])
        properties = moved.replace("\n", " ")
        yield Edit(at, end + 1 - at, "\n" * text.count("\n", at, end + 1))
        at = _skip(code, end + 1)
    if code.startswith("(", at):
        end = _end_of(code, at)
        if end is None:
            return
        if _CALL.search(code, at, end) and _has_one_region(code, at):
            yield Edit(end - 1, 0, ", {}")
        at = end
    if not properties.strip():
        return
    dictionary = _skip(code, at)
    if code.startswith("{", dictionary):
        is_empty = code.startswith("}", _skip(code, dictionary + 1))
        yield Edit(dictionary + 1, 0, properties if is_empty else f"{properties}, ")
    else:
        yield Edit(at, 0, f" {{{properties}}} ")


def _has_one_region(code: str, at: int) -> bool:
    """Whether the list that opens at `at` has one region; text that we printed has two."""
    first = _skip(code, at + 1)
    end = _end_of(code, first) if code.startswith("{", first) else None
    return end is not None and code.startswith(")", _skip(code, end))


def _end_of(code: str, at: int) -> int | None:
    """The offset after the bracket that closes the one at `at`."""
    opened, closed = code[at], _PAIRS[code[at]]
    depth = 0
    for match in re.compile(f"[{re.escape(opened + closed)}]").finditer(code, at):
        depth += 1 if match[0] == opened else -1
        if depth == 0:
            return match.end()
    return None


def _skip(code: str, at: int) -> int:
    while at < len(code) and code[at].isspace():
        at += 1
    return at
