"""Small functions where they are called: their loops can be one with those around them."""

from __future__ import annotations

from collections import Counter

from shard_dialect.ir.bindings import PassManager, ir
from shard_dialect.ir.function import functions_of, name_of
from shard_dialect.ir.walk import walk

_INLINE = "builtin.module(inline{default-pipeline=})"
_SMALL = 40
"""Ops of a function that is put where it is called, however often that is."""


def inline_small(module: ir.Operation) -> None:
    """Put what is called once, or small, where it is called."""
    calls = Counter(op.attributes["callee"].value for op in walk(module) if op.name == "func.call")
    if not calls:
        return
    for function in functions_of(module):
        is_small = sum(1 for _ in walk(function)) <= _SMALL
        if calls[name_of(function)] > 1 and not is_small:
            function.attributes["no_inline"] = ir.UnitAttr.get()
    PassManager.parse(_INLINE).run(module)
