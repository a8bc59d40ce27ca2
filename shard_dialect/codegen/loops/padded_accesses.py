"""Widen loads and stores of integers whose width is not a multiple of a byte.

    llvm.store %x : i12    ->    llvm.store (llvm.zext %x : i12 to i16) : i16

LLVM's vectorizer scalarizes accesses of such types. In a loop marked parallel, it wrongly stores
the full vector at each element's address, and past the end of the buffer.
"""

from __future__ import annotations

from shard_dialect.ir.bindings import ir
from shard_dialect.ir.building import build
from shard_dialect.ir.walk import walk


def store_padded(module: ir.Operation) -> None:
    """In the LLVM dialect, access each integer in memory with 8, 16, 32, ... bits."""
    for op in walk(module):
        if op.name == "llvm.load" and (wide := _padded(op.results[0].type)):
            with ir.InsertionPoint(op), op.location:
                loaded = build.create("llvm.load", [wide], op.operands).results[0]
                value = build.create("llvm.trunc", [op.results[0].type], [loaded]).results[0]
            op.results[0].replace_all_uses_with(value)
            op.erase()
        elif op.name == "llvm.store" and (wide := _padded(op.operands[0].type)):
            with ir.InsertionPoint(op), op.location:
                op.operands[0] = build.create("llvm.zext", [wide], [op.operands[0]]).results[0]


def _padded(type_: ir.Type) -> ir.Type | None:
    """The integer type of the bits that this type takes in memory; `None` if it is the same."""
    if not isinstance(type_, ir.IntegerType):
        return None
    width = max(8, 1 << (type_.width - 1).bit_length())
    return None if width == type_.width else ir.IntegerType.get_signless(width)
