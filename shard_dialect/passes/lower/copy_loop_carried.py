"""What goes around an `scf.while`, and into loops deep inside, is in memory of its own. In `lower`.

    scf.while (%a = %init) ... do {          scf.while (%a = %init) ... do {
      scf.yield %x                             %c = bufferization.alloc_tensor() copy(%x)
    }                                          scf.yield %c
                                             }

Upstream's bufferization takes it for granted, and lets `%a` be written to: here that would be `%x`,
which the next round may read, or even the caller's. What was written in the body anyway, or
over what came around in the same place, needs no copy.

To know what memory a loop's tensor is in, upstream asks where it comes from and where it is
yielded, and each of them again: in nested `scf.for` that takes twice as long with each level. A
copy says so by itself; one in every few levels is enough.
"""

from __future__ import annotations

from shard_dialect.ir.bindings import ir
from shard_dialect.ir.building import build
from shard_dialect.ir.walk import operations, walk
from shard_dialect.passes.lower.separate_buffers import INTO

_FRESH = ("bufferization.alloc_tensor", "tensor.empty")
_MAKES_ANEW = ("arith.", "math.", "shard.")
"""Dialects whose ops write to new memory, or over what nobody reads any more."""


_LEVELS = 6
"""Of loops, that upstream goes through without a copy."""


def copy_what_is_carried(module: ir.Operation) -> None:
    """Make the copies."""
    for op in walk(module):
        if op.name == "scf.while":
            _copy(op)
        elif op.name == "scf.for" and _depth(op) % _LEVELS == _LEVELS - 1:
            _copy_inits(op)


def _depth(loop: ir.Operation) -> int:
    """How many loops are around it."""
    found, around = 0, loop.parent
    while around is not None:
        found += around.name == "scf.for"
        around = around.parent
    return found


def _copy_inits(loop: ir.Operation) -> None:
    with ir.InsertionPoint(loop), loop.location:
        for place, value in enumerate(loop.operands):
            if isinstance(value.type, ir.RankedTensorType):
                copy = build.allocate_copy(value)
                copy.attributes["memory_space"] = ir.IntegerAttr.get(
                    ir.IntegerType.get_signless(64), 0
                )
                loop.operands[place] = copy.results[0]


def _copy(loop: ir.Operation) -> None:
    before, after = (region.blocks[0] for region in loop.regions)
    passed = list(operations(before)[-1].operands)[1:]
    end = operations(after)[-1]
    seen: list[ir.Value] = []
    for place, value in enumerate(end.operands):
        if not isinstance(value.type, ir.RankedTensorType):
            continue
        carried = None
        if place < len(passed) and passed[place] == before.arguments[place]:
            carried = after.arguments[place]
        if value in seen or not _has_own(value, carried, after):
            with ir.InsertionPoint(end), end.location:
                end.operands[place] = build.allocate_copy(value).results[0]
        seen.append(value)


def _has_own(value: ir.Value, carried: ir.Value | None, block: ir.Block) -> bool:
    """Whether the memory that `value` will be in is that of `carried`, or made in the block."""
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
            place = next(place for place, each in enumerate(op.results) if each == value)
            value = op.operands[len(op.operands) - len(op.results) + place]
        else:
            return False
    return True
