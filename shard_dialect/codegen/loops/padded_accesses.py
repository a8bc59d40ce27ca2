"""Makes loads and stores of integers of odd widths into those of wider ones.

    llvm.store %x : i12    ->    llvm.store (llvm.zext %x : i12 to i16) : i16

LLVM's vectorizer scalarizes memory of a type that does not fill its bytes, and for rounds that are
said to be apart it stores the whole vector at each element's place: wrong, and past the end.
"""

from __future__ import annotations

from shard_dialect.ir.bindings import ir
from shard_dialect.ir.building import build
from shard_dialect.ir.walk import walk


def store_padded(module: ir.Operation) -> None:
    """In the form for LLVM: each integer in memory has 8, 16, 32, ... bits, and is where it was."""
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
    """The integer type of the bits that one of this type takes up, if it is another."""
    if not isinstance(type_, ir.IntegerType):
        return None
    width = max(8, 1 << (type_.width - 1).bit_length())
    return None if width == type_.width else ir.IntegerType.get_signless(width)
