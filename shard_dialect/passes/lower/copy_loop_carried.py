"""Copy loop-carried values of `scf.while` and of deeply nested loops to new memory. In `lower`.

    scf.while (%a = %init) ... do {          scf.while (%a = %init) ... do {
      scf.yield %x                             %c = bufferization.alloc_tensor() copy(%x)
    }                                          scf.yield %c
                                             }

Upstream's bufferization assumes that `%a` has its own memory, and may write to it. Without the copy
that is the memory of `%x`, which the next iteration may read, or even the caller's. A value that is
written in the body, or in place over the loop-carried value of its number, needs no copy.

To find the memory of a loop-carried tensor, upstream analyzes its initial and its yielded value
recursively: in nested `scf.for`, each level doubles the time. A copy ends the recursion; one in
every few levels is enough.

Nor does upstream see that an `scf.for` which yields one value twice has two results in one memory.
"""

from __future__ import annotations

from shard_dialect.ir.bindings import ir
from shard_dialect.ir.building import build
from shard_dialect.ir.walk import body, operations, walk
from shard_dialect.passes.lower.separate_buffers import INTO

_FRESH = ("bufferization.alloc_tensor", "tensor.empty")
_MAKES_ANEW = ("arith.", "math.", "shard.")
"""Dialects whose ops write to new memory, or over memory that nothing reads any more."""


_LEVELS = 6
"""The number of nested loops that upstream analyzes without a copy."""


def copy_loop_carried(module: ir.Operation) -> None:
    """Insert the copies that bufferization needs."""
    for op in walk(module):
        if op.name == "scf.while":
            _copy(op)
        elif op.name == "scf.for":
            _copy_repeated(op)
            if _depth(op) % _LEVELS == _LEVELS - 1:
                _copy_inits(op)


def _depth(loop: ir.Operation) -> int:
    """The number of loops around a loop."""
    depth, around = 0, loop.parent
    while around is not None:
        depth += around.name == "scf.for"
        around = around.parent
    return depth


def _copy_inits(loop: ir.Operation) -> None:
    with ir.InsertionPoint(loop), loop.location:
        for number, value in enumerate(loop.operands):
            if isinstance(value.type, ir.RankedTensorType):
                copy = build.allocate_copy(value)
                copy.attributes["memory_space"] = ir.IntegerAttr.get(
                    ir.IntegerType.get_signless(64), 0
                )
                loop.operands[number] = copy.results[0]


def _copy_repeated(loop: ir.Operation) -> None:
    """Copy what a loop yields a second time, so that no two results are one memory."""
    end = operations(body(loop))[-1]
    seen: list[ir.Value] = []
    for number, value in enumerate(end.operands):
        if isinstance(value.type, ir.RankedTensorType) and value in seen:
            with ir.InsertionPoint(end), end.location:
                end.operands[number] = build.allocate_copy(value).results[0]
        seen.append(value)


def _copy(loop: ir.Operation) -> None:
    before, after = (region.blocks[0] for region in loop.regions)
    forwarded = list(operations(before)[-1].operands)[1:]
    end = operations(after)[-1]
    seen: list[ir.Value] = []
    for number, value in enumerate(end.operands):
        if not isinstance(value.type, ir.RankedTensorType):
            continue
        carried = None
        if number < len(forwarded) and forwarded[number] == before.arguments[number]:
            carried = after.arguments[number]
        if value in seen or not _has_own(value, carried, after):
            with ir.InsertionPoint(end), end.location:
                end.operands[number] = build.allocate_copy(value).results[0]
        seen.append(value)


def _has_own(value: ir.Value, carried: ir.Value | None, block: ir.Block) -> bool:
    """Whether `value` will be in the memory of `carried`, or in memory allocated in the block."""
    while carried is None or value != carried:
        owner = value.owner
        if isinstance(owner, ir.Block) or owner.operation.block != block:
            return False
        op = owner.operation
        if op.name in _FRESH or op.name.startswith(_MAKES_ANEW):
            return True
        if op.name in INTO:
            value = op.operands[INTO[op.name]]
        elif op.name.startswith("linalg."):
            number = next(number for number, each in enumerate(op.results) if each == value)
            value = op.operands[len(op.operands) - len(op.results) + number]
        else:
            return False
    return True
