"""What ops write over, kept apart where upstream's bufferization would take long. Part of `lower`.

    %2 = linalg.generic ins(%1, %w) outs(%1)      %e = bufferization.alloc_tensor()
                                                  %2 = linalg.generic ins(%1, %w) outs(%e)

It compares all that may share memory with each other, at each op: its time is cubic in the length
of a row of ops that each write over what the last one made, and in the users of one empty tensor
(a thousand additions took minutes).
"""

from __future__ import annotations

from shard_dialect.ir.bindings import ir
from shard_dialect.ir.building import build
from shard_dialect.ir.walk import walk

_LONGEST = 64
INTO = {"tensor.insert": 1, "tensor.insert_slice": 1}
"""Ops that write over an operand, and its place; linalg's write over their last ones."""
_EMPTY = ("bufferization.alloc_tensor", "tensor.empty")


def keep_apart(module: ir.Operation) -> None:
    """Have a new buffer begin where a row has been long, and one empty tensor for each user."""
    length: dict[ir.Value, int] = {}
    for op in walk(module):
        if op.name in _EMPTY and not len(op.operands):
            _multiply(op)
        for place, result in _written(op):
            before = length.get(op.operands[place], 0)
            if before == _LONGEST:
                op.operands[place] = _apart(op, place)
            length[result] = before % _LONGEST + 1


def _written(op: ir.Operation) -> list[tuple[int, ir.Value]]:
    """The places of the operands that are written over, and the results that this gives."""
    if op.name in INTO:
        return [(INTO[op.name], op.results[0])]
    if op.name.startswith("linalg.") and op.name != "linalg.index":
        return list(enumerate(op.results, len(op.operands) - len(op.results)))
    return []


def _multiply(op: ir.Operation) -> None:
    for use in list(op.results[0].uses)[1:]:
        with ir.InsertionPoint(op):
            copy = op.clone().operation
        use.owner.operation.operands[use.operand_number] = copy.results[0]


def _apart(op: ir.Operation, place: int) -> ir.Value:
    """New memory for an op to write to, with what it reads there."""
    value = op.operands[place]
    with ir.InsertionPoint(op), op.location:
        if op.name == "linalg.generic" and not _reads(op, place):
            return build.allocate_tensor(value.type).results[0]
        return build.allocate_copy(value).results[0]


def _reads(op: ir.Operation, place: int) -> bool:
    return any(True for _ in op.regions[0].blocks[0].arguments[place].uses)
