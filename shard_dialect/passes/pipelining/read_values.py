"""What ops read, also in their regions."""

from __future__ import annotations

from collections.abc import Mapping

from shard_dialect.ir.bindings import ir
from shard_dialect.ir.numbered_function import Function
from shard_dialect.ir.walk import walk


def read_values(function: Function) -> dict[int, tuple[int, ...]]:
    """The values that each op of the function's first block reads, by the op's id."""
    numbers = {value.handle: number for number, value in enumerate(function.values)}
    return {
        id(op): (*op.operands, *(numbers[value] for value in captured(op.handle)))
        for op in function.blocks[0].ops
    }


def replace_captured(op: ir.Operation, by: Mapping[ir.Value, ir.Value]) -> None:
    """Let the ops in the regions of `op` read other values."""
    for inner in walk(op):
        for number, value in enumerate(inner.operands):
            if value in by:
                inner.operands[number] = by[value]


def captured(op: ir.Operation) -> list[ir.Value]:
    """The values from outside of `op` that the ops in its regions read."""
    inside = walk(op) if len(op.regions) else []
    made = {value for each in inside for value in each.results}
    for each in (op, *inside):
        made |= {v for region in each.regions for block in region.blocks for v in block.arguments}
    return list(dict.fromkeys(v for each in inside for v in each.operands if v not in made))
