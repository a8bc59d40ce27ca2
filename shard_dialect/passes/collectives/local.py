"""What the passes on the local form share: the blocks that talk, and who needs what when."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from shard_dialect.ir.bindings import ir
from shard_dialect.ir.function import form_of, functions_of
from shard_dialect.ir.walk import walk


def local_functions(module: ir.Operation) -> Iterator[ir.Operation]:
    """The functions that are in the local form."""
    return (handle for handle in functions_of(module) if form_of(handle) == "local")


def blocks_of(function: ir.Operation, wanted: Callable[[ir.Operation], bool]) -> list[ir.Block]:
    """The blocks, of loops and branches too, that hold a `wanted` op."""
    blocks: list[ir.Block] = []
    for op in walk(function):
        if wanted(op) and op.block not in blocks:
            blocks.append(op.block)
    return blocks


def made_at(order: Sequence[ir.Operation]) -> dict[ir.Value, int]:
    """The place of the op of a block that makes each value."""
    return {result: place for place, op in enumerate(order) for result in op.results}


def needed_at(order: Sequence[ir.Operation]) -> dict[ir.Value, int]:
    """The place of the first op of a block that uses each value, itself or inside of it."""
    needed: dict[ir.Value, int] = {}
    for place, op in enumerate(order):
        for inner in (op, *walk(op)):
            for operand in inner.operands:
                needed.setdefault(operand, place)
    return needed
