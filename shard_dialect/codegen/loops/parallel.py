"""Tell LLVM what it cannot infer: that iterations of a loop access disjoint memory."""

from __future__ import annotations

from shard_dialect.codegen.loops.write_loops import INNERMOST, SCALAR
from shard_dialect.ir.bindings import ir
from shard_dialect.ir.walk import walk


def mark_parallel(module: ir.Operation) -> None:
    """In the LLVM dialect, mark the loads and stores of each loop that has `INNERMOST`."""
    for op in walk(module):
        if op.name != "llvm.br" or INNERMOST not in op.attributes:
            continue
        if op.attributes[INNERMOST] == ir.Attribute.parse(SCALAR):
            continue
        del op.attributes[INNERMOST]
        group, annotation = ir.ArrayAttr(ir.Attribute.parse(_MARKS))
        for inner in op.block.operations:
            each = inner.operation
            if each.name in ("llvm.load", "llvm.store"):
                each.attributes["access_groups"] = ir.ArrayAttr.get([group])
        op.attributes["loop_annotation"] = annotation


_GROUP = "#llvm.access_group<id = distinct[0]<>>"
_MARKS = f"[{_GROUP}, #llvm.loop_annotation<parallelAccesses = {_GROUP}>]"
"""Parsed together, so that both have one group; each parse makes a new group."""
