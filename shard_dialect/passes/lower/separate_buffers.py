"""Give ops new buffers to write to where upstream's bufferization would take long. In `lower`.

    %2 = linalg.generic ins(%1, %w) outs(%1)      %e = bufferization.alloc_tensor()
                                                  %2 = linalg.generic ins(%1, %w) outs(%e)

At each op, it compares all pairs of values that may share memory. So its time is cubic in the
length of a chain of ops that each write in place over the previous result, and in the number of
users of one empty tensor (a thousand additions took minutes).
"""

from __future__ import annotations

from shard_dialect.ir.bindings import ir
from shard_dialect.ir.building import build
from shard_dialect.ir.walk import walk

_LONGEST = 64
INTO = {"tensor.insert": 1, "tensor.insert_slice": 1}
"""Ops that write over an operand, with its number; linalg ops write over their last operands."""
_EMPTY = ("bufferization.alloc_tensor", "tensor.empty")


def separate_buffers(module: ir.Operation) -> None:
    """Start a new buffer after a long chain, and clone an empty tensor for each user."""
    length: dict[ir.Value, int] = {}
    for op in walk(module):
        if op.name in _EMPTY and not len(op.operands):
            _multiply(op)
        for number, result in _written(op):
            before = length.get(op.operands[number], 0)
            if before == _LONGEST:
                op.operands[number] = _separate(op, number)
            length[result] = before % _LONGEST + 1


def _written(op: ir.Operation) -> list[tuple[int, ir.Value]]:
    """The numbers of the operands that are written over, with the results for them."""
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


def _separate(op: ir.Operation, number: int) -> ir.Value:
    """A new buffer for an op to write to, with a copy of the operand if the op reads it."""
    value = op.operands[number]
    with ir.InsertionPoint(op), op.location:
        if op.name == "linalg.generic" and not _reads(op, number):
            return build.allocate_tensor(value.type).results[0]
        return build.allocate_copy(value).results[0]


def _reads(op: ir.Operation, number: int) -> bool:
    return any(True for _ in op.regions[0].blocks[0].arguments[number].uses)
