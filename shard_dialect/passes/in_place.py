"""Rows of ops that each write over what the last one made, broken where long. Part of `lower`.

    %2 = linalg.generic ins(%1, %w) outs(%1)      %e = bufferization.alloc_tensor()
                                                  %2 = linalg.generic ins(%1, %w) outs(%e)

Upstream's bufferization compares all that share memory with each other, at each op: its time is
cubic in the length of a row (a thousand additions took minutes).
"""

from __future__ import annotations

from shard_dialect.ir import build
from shard_dialect.ir.bindings import ir
from shard_dialect.ir.walk import walk

_LONGEST = 16


def break_rows(module: ir.Operation) -> None:
    """Have a new buffer begin where a row of `linalg`'s ops has been long."""
    length: dict[ir.Value, int] = {}
    for op in walk(module):
        if not op.name.startswith("linalg.") or op.name == "linalg.index":
            continue
        first = len(op.operands) - len(op.results)
        for place, result in enumerate(op.results, first):
            written = op.operands[place]
            before = length.get(written, 0)
            if before == _LONGEST:
                op.operands[place] = _apart(op, place)
            length[result] = before % _LONGEST + 1


def _apart(op: ir.Operation, place: int) -> ir.Value:
    """New memory for an op to write to, with what it reads there."""
    value = op.operands[place]
    with ir.InsertionPoint(op), op.location:
        if op.name == "linalg.generic" and not _reads(op, place):
            return build.allocate_tensor(value.type).results[0]
        return build.allocate_copy(value).results[0]


def _reads(op: ir.Operation, place: int) -> bool:
    return any(True for _ in op.regions[0].blocks[0].arguments[place].uses)
