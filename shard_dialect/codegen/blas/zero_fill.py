"""Drop fills with zeros before a product that can overwrite its result instead of adding to it.

linalg.fill(0, %t)
memref.copy %t, %u        is nothing, in front of    gemm(%a, %b, 0, %u)
"""

from __future__ import annotations

from functools import cmp_to_key

from shard_dialect.ir.bindings import ir
from shard_dialect.ir.building import build

_LINALG = "linalg."


def forget_zeros(op: ir.Operation, value: ir.Value) -> bool:
    """Whether the buffer holds zeros before `op`; if so, erase the fill unless others read it.

    `op` must write all of the buffer, and not read it. The answer is no unless zeros are certain.
    """
    earlier = _earlier(op, value)
    is_read = False
    while earlier:
        writer = earlier.pop()
        if _only_reads(writer, value):
            is_read = True
            continue
        writers = _writes_zeros(writer, value)
        if writers and not is_read:
            writer.erase()
        return writers
    return False


def _writes_zeros(op: ir.Operation, value: ir.Value) -> bool:
    operands = list(op.operands)
    if op.name == "linalg.fill":
        known = build.constant_value(operands[0])
        return operands[1] == value and isinstance(known, ir.FloatAttr) and known.value == 0.0
    if op.name not in ("memref.copy", "linalg.copy") or operands[1] != value:
        return False
    source = _earlier(op, operands[0])
    while source and _only_reads(source[-1], operands[0]):
        source.pop()
    return bool(source) and _writes_zeros(source[-1], operands[0])


def _earlier(op: ir.Operation, value: ir.Value) -> list[ir.Operation]:
    """The ops before `op` that use the buffer; none if it may be used through an alias."""
    if not isinstance(value.owner, ir.Block) and value.owner.name != "memref.alloc":
        return []
    users = [use.owner.operation for use in value.uses]
    for each in users:
        makes_view = any(isinstance(result.type, ir.MemRefType) for result in each.results)
        if each.block != op.block or makes_view:
            return []
    earlier = [each for each in users if each != op and each.is_before_in_block(op)]
    return sorted(earlier, key=cmp_to_key(_compare))


def _compare(a: ir.Operation, b: ir.Operation) -> int:
    return 0 if a == b else -1 if a.is_before_in_block(b) else 1


def _only_reads(op: ir.Operation, value: ir.Value) -> bool:
    if op.name == "memref.copy":
        return op.operands[1] != value
    if op.name == "memref.extract_aligned_pointer_as_index" or not op.name.startswith(_LINALG):
        return False
    segments = (
        op.attributes["operandSegmentSizes"] if "operandSegmentSizes" in op.attributes else None
    )
    inputs = segments[0] if segments else len(op.operands) - 1
    return value not in list(op.operands)[inputs:]
