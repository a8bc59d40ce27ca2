"""Makes loads and stores of i1 into those of bytes.

LLVM's vectorizer scalarizes memory of a type that does not fill its bytes, and for rounds that are
said to be apart it stores the whole vector at each element's place: wrong, and past the end.
"""

from __future__ import annotations

from shard_dialect.ir import build
from shard_dialect.ir.bindings import ir
from shard_dialect.ir.walk import walk


def store_as_bytes(module: ir.Operation) -> None:
    """In the form for LLVM: read and write each i1 in memory as an i8 that is 0 or 1."""
    bit, byte = ir.IntegerType.get_signless(1), ir.IntegerType.get_signless(8)
    for op in walk(module):
        if op.name == "llvm.load" and op.results[0].type == bit:
            with ir.InsertionPoint(op), op.location:
                loaded = build.create("llvm.load", [byte], op.operands).results[0]
                value = build.create("llvm.trunc", [bit], [loaded]).results[0]
            op.results[0].replace_all_uses_with(value)
            op.erase()
        elif op.name == "llvm.store" and op.operands[0].type == bit:
            with ir.InsertionPoint(op), op.location:
                op.operands[0] = build.create("llvm.zext", [byte], [op.operands[0]]).results[0]
