"""Find where a program reads memory that nothing has written: a check of it says nothing.

%e = tensor.empty() : tensor<4xf32>
%0 = arith.addf %x, %e : tensor<4xf32>          reads it
%1 = linalg.exp ins(%x) outs(%e)                writes to it, and reads nothing
%2 = linalg.matmul ins(%a, %b) outs(%e)         adds to it, so it is read
"""

from __future__ import annotations

from collections.abc import Iterator

from shard_dialect.errors import Diagnostic
from shard_dialect.ir.bindings import ir
from shard_dialect.ir.building.build import is_used
from shard_dialect.ir.diagnostics import note_at
from shard_dialect.ir.reading.source import Source
from shard_dialect.ir.walk import walk

_READ_ALL = ("arith", "math", "stablehlo", "tosa")
"""Dialects whose ops read all elements of their operands."""


def reads_of_undefined(source: Source) -> Iterator[Diagnostic]:
    """A note for each op that reads an empty tensor, in the current context."""
    module = source.parse()
    for op in walk(module.operation):
        if op.name == "tensor.empty":
            for use in op.results[0].uses:
                user = use.owner.operation
                if _reads(user, use.operand_number):
                    text = f"'{user.name}' op reads memory that nothing has written"
                    yield note_at(user.location, f"{text}: its result may be anything")


def _reads(user: ir.Operation, number: int) -> bool:
    dialect = user.name.partition(".")[0]
    if dialect == "linalg" and len(user.regions):
        return is_used(user.regions[0].blocks[0].arguments[number])
    return dialect in _READ_ALL or user.name in ("func.return", "tensor.extract")
