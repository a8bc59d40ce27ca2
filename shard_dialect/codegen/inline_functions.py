"""Inline small functions, so that their loops can be fused with those around the call."""

from __future__ import annotations

from collections import Counter

from shard_dialect.ir.bindings import PassManager, ir
from shard_dialect.ir.function import functions_of, name_of
from shard_dialect.ir.walk import walk

_INLINE = "builtin.module(inline{default-pipeline=})"
_SMALL = 40
"""The number of ops up to which a function is inlined, however often it is called."""


def inline_small(module: ir.Operation) -> None:
    """Inline functions that are called once, or small. No function may be recursive."""
    ops = {name_of(function): walk(function) for function in functions_of(module)}
    called = {
        name: [op.attributes["callee"].value for op in inside if op.name == "func.call"]
        for name, inside in ops.items()
    }
    counts = Counter(callee for callees in called.values() for callee in callees)
    if not counts:
        return
    sizes: dict[str, int] = {}

    def size(name: str) -> int:
        """The number of ops after inlining its calls; 0 if the function is not inlined."""
        if name not in sizes:
            total = len(ops[name]) + sum(size(callee) for callee in called[name] if callee in ops)
            sizes[name] = total if total <= _SMALL or counts[name] < 2 else 0
        return sizes[name]

    for function in functions_of(module):
        if not size(name_of(function)):
            function.attributes["no_inline"] = ir.UnitAttr.get()
    PassManager.parse(_INLINE).run(module)
