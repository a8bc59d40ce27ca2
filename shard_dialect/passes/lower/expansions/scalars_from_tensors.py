"""Replace ops on tensors of no dimensions by ops on scalars.

    %0 = tensor.from_elements %a : tensor<f32>
    %1 = linalg.map ins(%0, %b : tensor<f32>) (...) { %c = arith.cmpf olt, ... }
    %2 = tensor.extract %1[] : tensor<i1>

becomes `arith.cmpf` of `%a` and the extracted element of `%b`. Otherwise the buffers of `%0` and
`%1` would be allocated in every iteration of the loops around them.
"""

from __future__ import annotations

from shard_dialect.ir.bindings import ir
from shard_dialect.ir.building import build
from shard_dialect.ir.walk import body, operations, walk

_LOOPS = ("linalg.generic", "linalg.map")


def compute_elements(module: ir.Operation) -> None:
    """Replace ops on tensors of no dimensions if only their element is read."""
    for op in reversed(walk(module)):
        if op.name == "tensor.extract" and not len(op.operands) - 1:
            _read_directly(op)
        elif op.name in _LOOPS and all(map(_is_single, op.operands)) and _is_extracted(op):
            with op.location:
                _inline(op)


def _is_single(value: ir.Value) -> bool:
    return isinstance(value.type, ir.RankedTensorType) and value.type.rank == 0


def _is_extracted(op: ir.Operation) -> bool:
    uses = [use.owner.operation.name for result in op.results for use in result.uses]
    return len(op.results) == 1 and bool(uses) and set(uses) == {"tensor.extract"}


def _inline(op: ir.Operation) -> None:
    block = body(op)
    for operand, argument in zip(op.operands, block.arguments, strict=False):
        if next(iter(argument.uses), None) is not None:
            with ir.InsertionPoint(op):
                read = build.create("tensor.extract", [argument.type], [operand])
            argument.replace_all_uses_with(read.results[0])
            _read_directly(read)
    *ops, end = operations(block)
    (value,) = end.operands
    for each in ops:
        each.move_before(op)
    for use in list(op.results[0].uses):
        use.owner.operation.results[0].replace_all_uses_with(value)
        use.owner.operation.erase()
    op.erase()


def _read_directly(op: ir.Operation) -> None:
    """Replace an extracted element by the scalar that the tensor was made from."""
    single = op.operands[0]
    if isinstance(single.owner, ir.Block):
        return
    producer = single.owner.operation
    constant = build.splat_value(single) if build.is_constant(producer) else None
    if producer.name == "tensor.from_elements":
        value = producer.operands[0]
    elif constant is not None:
        with ir.InsertionPoint(op), op.location:
            value = build.scalar(constant).results[0]
    else:
        return
    op.results[0].replace_all_uses_with(value)
    op.erase()
    if next(iter(single.uses), None) is None:
        producer.erase()
