"""Let upstream's loops compute long sums of f32 in f64.

    %r = linalg.reduce { arith.addf } ins(%x : tensor<4096xf32>) outs(%z : tensor<f32>)

becomes the same op on `arith.extf %x`, followed by `arith.truncf`. Added one by one in f32, the
last of many elements would be rounded away.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from shard_dialect.ir.bindings import ir, linalg_queries
from shard_dialect.ir.building import build
from shard_dialect.ir.walk import body, operations, walk

_LONG = 1024
_CASTS = ("arith.extf", "arith.truncf")


def sum_in_f64(function: ir.Operation) -> None:
    """Rewrite the linalg ops on tensors that reduce many elements of f32."""
    for op in walk(function):
        if op.name.startswith("linalg.") and len(op.results) and _makes_f32_of_many(op):
            with ir.InsertionPoint(op), op.location:
                _rewrite(op)


def _makes_f32_of_many(op: ir.Operation) -> bool:
    maps = linalg_queries.get_indexing_maps(op)
    inner = _inner(op)
    if maps is None or not inner or any(list(each.regions) for each in inner):
        return False
    if "arith.addf" not in [each.name for each in inner] or not any(map(_is_f32, op.results)):
        return False
    sizes: dict[int, int] = {}
    summed: set[int] = set()
    for operand, map_ in zip(op.operands, [each.value for each in maps], strict=True):
        shape = operand.type.shape if isinstance(operand.type, ir.RankedTensorType) else ()
        for expression, size in zip(map_.results, shape, strict=True):
            if isinstance(expression, ir.AffineDimExpr):
                sizes[expression.position] = size
    for map_ in [each.value for each in maps][-len(op.results) :]:
        kept = {each.position for each in map_.results if isinstance(each, ir.AffineDimExpr)}
        summed |= sizes.keys() - kept
    return prod(sizes[loop] for loop in summed) >= _LONG


def _inner(op: ir.Operation) -> list[ir.Operation]:
    return operations(body(op)) if op.regions and len(op.regions[0].blocks) else []


def _is_f32(value: ir.Value) -> bool:
    type_ = value.type
    return isinstance(type_.element_type if isinstance(type_, ir.ShapedType) else type_, ir.F32Type)


def _wide(type_: ir.Type) -> ir.Type:
    f64 = ir.F64Type.get()
    is_tensor = isinstance(type_, ir.RankedTensorType)
    return ir.RankedTensorType.get(type_.shape, f64) if is_tensor else f64


def _rewrite(op: ir.Operation) -> None:
    for number, operand in enumerate(op.operands):
        if _is_f32(operand):
            op.operands[number] = build.cast("arith.extf", operand, _wide(operand.type))
    _widen([each for each in body(op).arguments if _is_f32(each)])
    for inner in _inner(op):
        if inner.name == "arith.constant" and _is_f32(inner.results[0]):
            value = inner.attributes["value"].value
            inner.attributes["value"] = ir.FloatAttr.get(ir.F64Type.get(), value)
        _widen([each for each in inner.results if _is_f32(each)])
        if inner.name in _CASTS and inner.operands[0].type == inner.results[0].type:
            inner.results[0].replace_all_uses_with(inner.operands[0])
            inner.erase()
    for result in op.results:
        if _is_f32(result):
            uses, type_ = list(result.uses), result.type
            result.set_type(_wide(type_))
            with ir.InsertionPoint.after(op):
                rounded = build.cast("arith.truncf", result, type_)
            build.redirect(uses, rounded)


def _widen(values: Sequence[ir.Value]) -> None:
    for each in values:
        each.set_type(_wide(each.type))
