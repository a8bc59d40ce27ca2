"""Let upstream's loops compute floats of 16 bits in f32, and round to 16 bits after each op.

    %y = linalg.matmul ins(%a, %b : tensor<4x4xbf16>, ...) outs(%c : tensor<4x4xbf16>)
    %z = arith.mulf %y, %factors

becomes

    %y = linalg.matmul ins(%a, %b : tensor<4x4xf32>, ...) outs(%c : tensor<4x4xf32>)
    %z = arith.mulf %y, %factors : tensor<4x4xf32>
    %r = arith.extf (arith.truncf %z : tensor<4x4xbf16>) : tensor<4x4xf32>

because upstream's loops would otherwise round to bf16 after each addition. The rounded values are
those that have factors (`rounding`). A function's arguments and results keep their types.
"""

from __future__ import annotations

from shard_dialect.ir.bindings import ir
from shard_dialect.ir.building import build
from shard_dialect.ir.function import returns_of, update_type
from shard_dialect.ir.walk import body, operations
from shard_dialect.runtime.checking.reference.judge import CannotJudge

_CASTS = ("arith.extf", "arith.truncf")


def widen(function: ir.Operation, arguments: int) -> None:
    """Rewrite a function without calls, whose arguments from `arguments` on are factors."""
    own = list(body(function).arguments)
    products = [
        (use.owner.results[0], each.type)
        for each in own[arguments:]
        for use in each.uses
        if _is_narrow(each.type)
    ]
    types_before = [(each, each.type) for each in own]
    returned = [[each.type for each in end.operands] for end in returns_of(function)]
    for op in _all(function):
        _widen_op(op)
    for block in function.regions[0]:
        for argument in block.arguments:
            argument.set_type(_wide(argument.type))
    for value, type_ in products:
        _round(value, type_)
    for argument, type_ in types_before:
        argument.set_type(type_)
        _extend(argument, ir.InsertionPoint.at_block_begin(body(function)))
    for end, types in zip(returns_of(function), returned, strict=True):
        with ir.InsertionPoint(end), end.location:
            for number, type_ in enumerate(types):
                if _is_narrow(type_):
                    end.operands[number] = build.cast("arith.truncf", end.operands[number], type_)
    update_type(function)


def _all(op: ir.Operation) -> list[ir.Operation]:
    """All ops inside, also in the bodies of linalg's named ops."""
    ops = []
    for region in op.regions:
        for block in region:
            for inner in operations(block):
                ops += [inner, *_all(inner)]
    return ops


def _widen_op(op: ir.Operation) -> None:
    if "bitcast" in op.name and any(map(_is_narrow, _types(op))):
        raise CannotJudge(f"'{op.name}' op looks at the bits of a float that is computed in f32")
    if build.is_constant(op):
        _widen_constant(op)
        return
    for region in op.regions:
        for block in region:
            for argument in block.arguments:
                argument.set_type(_wide(argument.type))
    for result in op.results:
        result.set_type(_wide(result.type))
    if op.name in _CASTS and op.operands[0].type == op.results[0].type:
        op.results[0].replace_all_uses_with(op.operands[0])
        op.erase()


def _types(op: ir.Operation) -> list[ir.Type]:
    return [each.type for each in (*op.operands, *op.results)]


def _widen_constant(op: ir.Operation) -> None:
    type_ = op.results[0].type
    if not _is_narrow(type_):
        return
    value = op.attributes[build.CONSTANTS[op.name]]
    if not isinstance(type_, ir.ShapedType):
        wide: ir.Attribute = ir.FloatAttr.get(ir.F32Type.get(), value.value)
    elif build.is_splat(value):
        repeated = ir.FloatAttr.get(ir.F32Type.get(), value.get_splat_value().value)
        wide = ir.DenseElementsAttr.get_splat(_wide(type_), repeated)
    else:
        _extend(op.results[0], ir.InsertionPoint.after(op))
        return
    op.attributes[build.CONSTANTS[op.name]] = wide
    op.results[0].set_type(wide.type)


def _is_narrow(type_: ir.Type) -> bool:
    element = type_.element_type if isinstance(type_, ir.ShapedType) else type_
    return isinstance(element, ir.BF16Type | ir.F16Type)


def _wide(type_: ir.Type) -> ir.Type:
    if not _is_narrow(type_):
        return type_
    if isinstance(type_, ir.RankedTensorType):
        return ir.RankedTensorType.get(type_.shape, ir.F32Type.get())
    if isinstance(type_, ir.ShapedType):
        raise CannotJudge(f"it computes on no {type_}")
    return ir.F32Type.get()


def _extend(value: ir.Value, at: ir.InsertionPoint) -> None:
    """Replace the uses of a narrow value by its extension to f32."""
    uses = list(value.uses)
    if _is_narrow(value.type) and uses:
        with at, ir.Location.unknown():
            wide = build.cast("arith.extf", value, _wide(value.type))
        build.redirect(uses, wide)


def _round(value: ir.Value, type_: ir.Type) -> None:
    """Replace the uses of an f32 value by the value rounded to `type_`."""
    uses = list(value.uses)
    with ir.InsertionPoint.after(value.owner), value.owner.location:
        rounded = build.cast("arith.extf", build.cast("arith.truncf", value, type_), value.type)
    build.redirect(uses, rounded)
