"""Single elements are values, not tensors that loops go over once.

    %1 = linalg.map ins(%a, %b : tensor<f32>, tensor<f32>) (...) { %c = arith.cmpf olt, ... }
    %2 = tensor.extract %1[] : tensor<i1>

becomes `arith.cmpf` of what is extracted of `%a` and `%b`: the buffer of `%1` would be allocated in
every round of the loops around it.
"""

from __future__ import annotations

from shard_dialect.ir import build
from shard_dialect.ir.bindings import ir
from shard_dialect.ir.walk import body, operations, walk

_LOOPS = ("linalg.generic", "linalg.map")


def compute_elements(module: ir.Operation) -> None:
    """Replace ops on tensors of no dimensions of which only the element is read."""
    for op in [each for each in walk(module) if each.name in _LOOPS]:
        if all(_is_single(value.type) for value in op.operands) and _is_extracted(op):
            with op.location:
                _inline(op)


def _is_single(type_: ir.Type) -> bool:
    return isinstance(type_, ir.RankedTensorType) and type_.rank == 0


def _is_extracted(op: ir.Operation) -> bool:
    uses = [use.owner.operation.name for result in op.results for use in result.uses]
    return len(op.results) == 1 and bool(uses) and set(uses) == {"tensor.extract"}


def _inline(op: ir.Operation) -> None:
    block = body(op)
    for operand, argument in zip(op.operands, block.arguments, strict=False):
        if next(iter(argument.uses), None) is not None:
            with ir.InsertionPoint(op):
                value = build.create("tensor.extract", [argument.type], [operand]).results[0]
            argument.replace_all_uses_with(value)
    *ops, end = operations(block)
    (value,) = end.operands
    for each in ops:
        each.move_before(op)
    for use in list(op.results[0].uses):
        use.owner.operation.results[0].replace_all_uses_with(value)
        use.owner.operation.erase()
    op.erase()
