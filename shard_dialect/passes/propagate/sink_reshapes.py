"""Move reshapes that merge dimensions behind elementwise ops.

    %1 = stablehlo.reshape %0 : (tensor<8x4x16xf32>) -> tensor<32x16xf32>
    %2 = stablehlo.tanh %1 : tensor<32x16xf32>
    %3 = stablehlo.reshape %2 : (tensor<32x16xf32>) -> tensor<8x4x16xf32>

becomes

    %2 = stablehlo.tanh %0 : tensor<8x4x16xf32>

If %0 is split in the dimension of size 4 and not in that of size 8, a shard of %1 is strided, which
no sharding can express. An elementwise op computes the same on any shape, so the reshape moves
behind the op. If the op is followed by the inverse reshape, both reshapes are removed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from shard_dialect.ir.bindings import ir
from shard_dialect.ir.building.build import create
from shard_dialect.ir.function import form_of, functions_of
from shard_dialect.ir.mesh.annotation_ops import has_loops
from shard_dialect.ir.no_grid import declares_no_grid
from shard_dialect.ir.walk import walk
from shard_dialect.model.sharding import Shape
from shard_dialect.passes.framework.base import Pass
from shard_dialect.rules import rule_of
from shard_dialect.rules.reshape_factors import reshaped

_RESHAPE = "stablehlo.reshape"
_DIALECTS = ("stablehlo.", "arith.", "math.")
"""Dialects whose elementwise ops have shapes only in their types, not in attributes."""
_CONSTANTS = ("arith.constant", "stablehlo.constant")


@dataclass(frozen=True)
class SinkReshapes(Pass):
    """Move reshapes that merge dimensions behind elementwise ops, and drop those that undo them."""

    name = "sink-reshapes"

    def rewrite(self, module: ir.Operation) -> None:
        """Sink the reshapes of the functions in the annotated form."""
        if declares_no_grid(module):
            return
        for function in functions_of(module):
            if form_of(function) == "annotated":
                _sink(function)


def _sink(function: ir.Operation) -> None:
    for op in walk(function):
        if op.name == _RESHAPE:
            _remove_inverse(op)
        elif op.name.startswith(_DIALECTS):
            merged = list(_merges(op))
            if merged and _is_elementwise(op):
                _compute_before(op, merged[0])
    for op in reversed(walk(function)):
        if op.name == _RESHAPE and not any(True for _ in op.results[0].uses):
            op.erase()


def _merges(op: ir.Operation) -> Iterator[ir.Value]:
    """The source of each operand of `op` that is a reshape which merges dimensions."""
    for operand in op.operands:
        source = _before_reshape(operand)
        if source is not None and _is_merge(_shape(source), _shape(operand)):
            yield source


def _before_reshape(value: ir.Value) -> ir.Value | None:
    owner = value.owner
    if isinstance(owner, ir.Block) or owner.operation.name != _RESHAPE:
        return None
    if _is_annotated(owner.operation):
        return None
    source: ir.Value = owner.operation.operands[0]
    return source if _shape(source) is not None else None


def _is_merge(before: Shape | None, after: Shape | None) -> bool:
    """Whether each dimension of `after` merges one or more of `before`, and one merges several."""
    if before is None or after is None or len(after) >= len(before):
        return False
    rule = reshaped(before, after)
    if rule is None or rule.unsplit or rule.operands[0] is None or rule.results[0] is None:
        return False
    is_kept = all(len(dim) <= 1 for dim in rule.operands[0])
    return is_kept and any(len(dim) > 1 for dim in rule.results[0])


def _is_elementwise(op: ir.Operation) -> bool:
    """Whether `op` is elementwise, with one result and all operands of the result's shape."""
    if len(op.results) != 1 or op.name in _CONSTANTS or _is_annotated(op):
        return False
    shape = _shape(op.results[0])
    if shape is None or any(_shape(operand) != shape for operand in op.operands):
        return False
    rule = rule_of(op)
    return rule is not None and rule.role == "elementwise"


def _is_annotated(op: ir.Operation) -> bool:
    """Whether the op or its result has an annotation, which depends on its present shape."""
    return has_loops(op) or any(name.startswith(("mesh.", "sdy.")) for name in op.attributes)


def _compute_before(op: ir.Operation, source: ir.Value) -> None:
    """Compute the op on the shape of `source`, and reshape its result."""
    shape = source.type.shape
    with ir.InsertionPoint(op), op.location:
        operands = [_as(operand, shape) for operand in op.operands]
        moved_op = op.clone().operation
        for number, operand in enumerate(operands):
            moved_op.operands[number] = operand
        result = op.results[0].type
        moved_op.results[0].set_type(_type(result, shape))
        back = create(_RESHAPE, [result], [moved_op.results[0]]).results[0]
    op.results[0].replace_all_uses_with(back)
    op.erase()


def _as(value: ir.Value, shape: list[int]) -> ir.Value:
    """A value in another shape: the source of its reshape if that has the shape, or a reshape."""
    source = _before_reshape(value)
    if source is not None and list(source.type.shape) == list(shape):
        return source
    return create(_RESHAPE, [_type(value.type, shape)], [value]).results[0]


def _remove_inverse(op: ir.Operation) -> None:
    """Replace a reshape that undoes the reshape of its operand by the source of the latter."""
    source = None if _is_annotated(op) else _before_reshape(op.operands[0])
    if source is not None and source.type == op.results[0].type:
        op.results[0].replace_all_uses_with(source)


def _type(like: ir.RankedTensorType, shape: list[int]) -> ir.RankedTensorType:
    return ir.RankedTensorType.get(list(shape), like.element_type, loc=ir.Location.unknown())


def _shape(value: ir.Value) -> Shape | None:
    type_ = value.type
    is_plain = isinstance(type_, ir.RankedTensorType) and type_.encoding is None
    return tuple(type_.shape) if is_plain and type_.has_static_shape else None
