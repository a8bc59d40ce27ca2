"""Instances of ops that upstream's conversion does wrongly, or not at all, as others."""

from __future__ import annotations

from collections.abc import Sequence

from shard_dialect.ir.bindings import ir
from shard_dialect.passes.expansions import code
from shard_dialect.rules.stablehlo.arithmetic import broadcast, joined, repeated

_LARGEST = 2**63 - 1


def add(op: ir.Operation) -> Sequence[ir.Value]:
    """Of bits it is `or`, which upstream makes `xor`."""
    type_ = op.results[0].type
    if str(type_.element_type) != "i1":
        return list(op.results)
    a, b = op.operands
    return [joined(a, b, "or")]


def reduce(op: ir.Operation) -> Sequence[ir.Value]:
    """Along no dimension: each element is joined with the start."""
    if list(op.attributes["dimensions"]):
        return list(op.results)
    count = len(op.operands) // 2
    values, starts = list(op.operands)[:count], list(op.operands)[count:]
    wide = [broadcast(s, v.type.shape, []) for s, v in zip(starts, values, strict=True)]
    return [code.applied(op, 0, [*wide, *values], number) for number in range(count)]


def at_dynamic_place(op: ir.Operation) -> Sequence[ir.Value]:
    """Places that would turn negative with a sign are too large, as they are without."""
    for number, operand in enumerate(op.operands):
        element = operand.type.element_type
        is_place = number and isinstance(element, ir.IntegerType) and not operand.type.rank
        if is_place and element.is_unsigned and element.width == 64:
            largest = repeated(_LARGEST, operand.type)
            op.operands[number] = joined(operand, largest, "minimum")
    return list(op.results)
