"""Locates errors in text that MLIR's parser rejects without a message.

    toy.op @g(rank = 2)
    ^ dialects that IRDL defines have no short form: the parser fails here without a message

The parser reads from the left. For text that ends before the error, it reports the end of the text.
So the error is at the last token of the shortest prefix that it rejects without a message.
"""

from __future__ import annotations

import re

from shard_dialect.errors import ShardError
from shard_dialect.ir.bindings import ir
from shard_dialect.ir.reading.blank_comments import code_of

_TOKEN = re.compile(r'"(?:[^"\\\n]|\\.)*"|[%@#!^]?[\w.$-]+|\S')
_OP = re.compile(r"[A-Za-z_]\w*(?:\.\w+)+")


def explained(text: str) -> tuple[int, str]:
    """The offset in `text` where MLIR fails without a message, and a message."""
    tokens = list(_TOKEN.finditer(code_of(text)))
    low, high = 0, len(tokens)  # the shortest such prefix has more than `low` tokens
    while high - low > 1:
        middle = (low + high) // 2
        if _is_refused_silently(text[: tokens[middle - 1].end()]):
            high = middle
        else:
            low = middle
    if not tokens:
        return 0, "expected a module"
    last = tokens[high - 1]
    if _OP.fullmatch(last[0]):
        return last.start(), (
            f"'{last[0]}' op has no short form: write it as \"{last[0]}\"(...) {{...}} : "
            "(...) -> (...)"
        )
    return last.start(), f"MLIR does not read on from '{last[0]}', and does not say why"


def _is_refused_silently(text: str) -> bool:
    try:
        ir.Module.parse(text)
    except ir.MLIRError as error:
        return not error.error_diagnostics
    except ShardError:
        return False
    return False
