"""Accumulate sums and products in wide enough elements, and round once. A step of `lower`.

    %r = linalg.reduce { arith.addf } ins(%x : tensor<4x4096xbf16>) outs(%init : tensor<4xbf16>)

becomes, as the sum of 256 and 1 is 256 in bf16,

    %start = arith.extf %init : tensor<4xbf16> to tensor<4xf32>
    %sum = linalg.generic ins(%x : tensor<4x4096xbf16>) outs(%start : tensor<4xf32>) {
      %wide = arith.extf %element : bf16 to f32
      arith.addf %wide, %sum : f32 }
    %r = arith.truncf %sum : tensor<4xf32> to tensor<4xbf16>

f16 and bf16 are accumulated in f32, as in XLA, torch and BLAS. Long sums of f32 are accumulated in
f64, so that their error does not grow with their length. Matrix products and convolutions in f32
stay, since BLAS adds them up in blocks.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from math import prod

from shard_dialect.ir.bindings import ir, linalg_queries
from shard_dialect.ir.building import build
from shard_dialect.ir.building.build import replace_op
from shard_dialect.ir.building.loops_and_masks import elementwise
from shard_dialect.ir.walk import body, operations, walk
from shard_dialect.passes.framework.base import UNCHANGED, Outcome, needs
from shard_dialect.passes.lower.boundary import NOT_LOWERED

_LONG = 1024
"""The number of elements from which on a sum of f32 is accumulated in f64."""
_ACCUMULATES = ("arith.addf", "arith.subf", "arith.mulf")
_MULTIPLY_ADD = ["arith.mulf", "arith.addf", "linalg.yield"]
_OF_ELEMENTS = ("arith.", "math.", "linalg.index", "linalg.yield", "tensor.extract")
"""The ops that may be in a body that is rewritten to wider elements."""


@needs(forms=NOT_LOWERED)
def accumulate_wide(module: ir.Operation) -> Outcome:
    """Rewrite the linalg reductions whose elements are too narrow to accumulate in."""
    outcome: Outcome = UNCHANGED
    for op in walk(module):
        wide = _accumulator(op) if op.name.startswith("linalg.") and len(op.results) else None
        if wide is not None:
            with ir.InsertionPoint(op), op.location:
                _rewrite(op, wide)
            outcome = None
    return outcome


def _accumulator(op: ir.Operation) -> ir.Type | None:
    """The type to accumulate in; `None` if it is the results' type."""
    if not len(op.regions):
        return None
    outputs = list(body(op).arguments)[-len(op.results) :]
    accumulates = any(use.owner.name in _ACCUMULATES for each in outputs for use in each.uses)
    if not accumulates:
        return None
    maps = linalg_queries.get_indexing_maps(op)
    if maps is None or not _is_simple(op):
        return None
    kinds = {str(result.type.element_type) for result in op.results}
    is_product = [each.name for each in operations(body(op))] == _MULTIPLY_ADD
    return wide_enough(kinds, _length(op, [map_.value for map_ in maps]), is_product)


def wide_enough(kinds: Set[str], length: int, is_product: bool = False) -> ir.Type | None:
    """The type to accumulate `length` elements of these types in; `None` if it is their own.

    `is_product` says that they are a matrix product's.
    """
    is_narrow = any(each in ("bf16", "f16") or each.startswith("f8") for each in kinds)
    if length >= _LONG and not is_product and (is_narrow or "f32" in kinds):
        return ir.F64Type.get()
    return ir.F32Type.get() if length > 1 and is_narrow else None


def _is_simple(op: ir.Operation) -> bool:
    return all(
        each.name.startswith(_OF_ELEMENTS)
        and each.name != "arith.bitcast"
        and not list(each.regions)
        for each in operations(body(op))
    )


def _length(op: ir.Operation, maps: Sequence[ir.AffineMap]) -> int:
    """The largest number of operands' elements that are reduced to one element of a result."""
    kept = {loop for map_ in maps[-len(op.results) :] for loop in _loops(map_)}
    sizes: dict[int, int] = {}
    shapes = [list(each.type.shape) if _is_tensor(each) else [] for each in op.operands]
    for map_, shape in zip(maps, shapes, strict=True):
        for expr, size in zip(map_.results, shape, strict=True):
            if isinstance(expr, ir.AffineDimExpr):
                sizes[expr.position] = size
    return prod(size for loop, size in sizes.items() if loop not in kept and size > 0)


def _loops(map_: ir.AffineMap) -> list[int]:
    return [each.position for each in map_.results if isinstance(each, ir.AffineDimExpr)]


def _is_tensor(value: ir.Value) -> bool:
    return isinstance(value.type, ir.RankedTensorType)


def _rewrite(op: ir.Operation, wide: ir.Type) -> None:
    """Replace the op by a `linalg.generic` that accumulates in `wide`."""
    count = len(op.operands) - len(op.results)
    operands = list(op.operands)
    if [
        each.name for each in operations(body(op))
    ] == _MULTIPLY_ADD:  # BLAS needs one type for all operands
        operands = [_widened(each, wide) for each in operands]
    else:
        operands[count:] = [_widened(each, wide) for each in operands[count:]]
    maps = linalg_queries.get_indexing_maps(op)
    attributes = {
        "indexing_maps": ir.ArrayAttr.get(list(maps)),
        "iterator_types": _iterators(op, [map_.value for map_ in maps]),
        "operandSegmentSizes": ir.DenseI32ArrayAttr.get([count, len(op.results)]),
    }
    types = [each.type for each in operands[count:]]
    generic = build.create("linalg.generic", types, operands, attributes, regions=1)
    block = body(op)
    block.append_to(generic.regions[0])
    _retype(block, operands, wide)
    replace_op(op, *map(_narrowed, generic.results, (each.type for each in op.results)))


def _iterators(op: ir.Operation, maps: Sequence[ir.AffineMap]) -> ir.Attribute:
    if "iterator_types" in op.attributes:
        return op.attributes["iterator_types"]
    kept = {loop for map_ in maps[-len(op.results) :] for loop in _loops(map_)}
    kinds = ["parallel" if loop in kept else "reduction" for loop in range(maps[0].n_dims)]
    parsed = [ir.Attribute.parse(f"#linalg.iterator_type<{kind}>") for kind in kinds]
    return ir.ArrayAttr.get(parsed)


def _is_narrow(type_: ir.Type, wide: ir.Type) -> bool:
    return isinstance(type_, ir.FloatType) and type_.width < wide.width


def _widened(value: ir.Value, wide: ir.Type) -> ir.Value:
    """The value, a tensor or scalar, with its floats extended to `wide` if they are narrower."""
    if not _is_tensor(value):
        return build.cast("arith.extf", value, wide) if _is_narrow(value.type, wide) else value
    if not _is_narrow(value.type.element_type, wide):
        return value
    type_ = ir.RankedTensorType.get(value.type.shape, wide)
    fill = value.owner if not isinstance(value.owner, ir.Block) else None
    if fill is not None and fill.name == "linalg.fill":
        known = build.constant_value(fill.operands[0])
        if isinstance(known, ir.FloatAttr):
            start = build.number(known.value, wide)
            return build.fill(start, build.empty(type_)).results[0]
    return elementwise([value], lambda each: build.cast("arith.extf", each, wide), type_)


def _narrowed(value: ir.Value, type_: ir.RankedTensorType) -> ir.Value:
    if value.type == type_:
        return value
    element = type_.element_type
    return elementwise([value], lambda each: build.cast("arith.truncf", each, element), type_)


def _retype(block: ir.Block, operands: Sequence[ir.Value], wide: ir.Type) -> None:
    """Let a body compute on floats at least as wide as `wide`; it rounds only by its own ops."""
    for argument, operand in zip(block.arguments, operands, strict=True):
        element = operand.type.element_type if _is_tensor(operand) else operand.type
        if element != argument.type:
            argument.set_type(element)
        elif _is_narrow(argument.type, wide):
            _extend_uses(argument, wide, ir.InsertionPoint.at_block_begin(block))
    for op in operations(block):
        if op.name == "arith.extf" and op.operands[0].type == wide:
            _forward(op, wide)
        elif not len(op.results) or not _is_narrow(op.results[0].type, wide):
            continue
        elif op.name == "arith.constant":
            value = ir.FloatAttr.get(wide, op.attributes["value"].value)
            with ir.InsertionPoint(op), op.location:
                replace_op(op, build.scalar(value))
        elif op.name in ("arith.truncf", "tensor.extract"):
            _extend_uses(op.results[0], wide, ir.InsertionPoint.after(op))
        else:
            op.results[0].set_type(wide)


def _forward(op: ir.Operation, wide: ir.Type) -> None:
    """Drop an extension of a value that is as wide already; one to wider floats stays."""
    if op.results[0].type.width <= wide.width:
        replace_op(op, op.operands[0])


def _extend_uses(value: ir.Value, wide: ir.Type, at: ir.InsertionPoint) -> None:
    uses = list(value.uses)
    if not uses:
        return
    with at, ir.Location.unknown():
        extended = build.cast("arith.extf", value, wide)
    build.redirect(uses, extended)
