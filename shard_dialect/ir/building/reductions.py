"""Reductions as ops: the op that combines two elements, and the identity.

Elements may have any type that programs run with. `arith` has only signless integers, so signed and
unsigned ones are cast to signless ones with the same bits (`signless`), and combined by the op for
their signedness.
"""

from __future__ import annotations

from math import inf

from shard_dialect.ir.bindings import ir
from shard_dialect.ir.building.build import (
    constant_behind,
    constant_value,
    create_value,
    index,
    is_splat,
    scalar,
    splat_value,
)
from shard_dialect.ir.building.loops_and_masks import elementwise
from shard_dialect.model import Reduction, ShardingError

_COMBINERS: dict[Reduction, tuple[str, str, str]] = {
    "sum": ("arith.addf", "arith.addi", "complex.add"),
    "product": ("arith.mulf", "arith.muli", "complex.mul"),
    "max": ("arith.maximumf", "arith.maxsi", ""),
    "min": ("arith.minimumf", "arith.minsi", ""),
    "bitwise_and": ("", "arith.andi", ""),
    "bitwise_or": ("", "arith.ori", ""),
    "bitwise_xor": ("", "arith.xori", ""),
}
"""For each reduction, the ops that combine floats, integers and complex numbers."""

_OF_UNSIGNED = {"arith.maxsi": "arith.maxui", "arith.minsi": "arith.minui"}

BITWISE: tuple[Reduction, ...] = ("bitwise_and", "bitwise_or", "bitwise_xor")
"""The reductions that combine i1 elements, too."""

REDUCTION_OF: dict[str, Reduction] = {
    name: reduction for reduction, names in _COMBINERS.items() for name in names if name
}
"""The reduction that an op performs on two values. Ops that ignore NaN are not here, because no
collective does, nor ops that treat signless elements as unsigned."""


def signless(type_: ir.Type) -> ir.Type:
    """The type, of an element or a tensor, with signless integers."""
    if isinstance(type_, ir.RankedTensorType):
        plain = signless(type_.element_type)
        if plain == type_.element_type:
            return type_
        return ir.RankedTensorType.get(type_.shape, plain, type_.encoding)
    if isinstance(type_, ir.IntegerType) and not type_.is_signless:
        return ir.IntegerType.get_signless(type_.width)
    return type_


def is_unsigned(element: ir.Type) -> bool:
    """Whether elements of this type are unsigned integers."""
    return isinstance(element, ir.IntegerType) and element.is_unsigned


def as_type(value: ir.Value, type_: ir.Type) -> ir.Value:
    """A tensor cast to a type whose integers have another signedness, with the same bits."""
    if value.type == type_:
        return value
    return create_value("tensor.bitcast", type_, [value])


def may_be_partial(op: ir.Operation, reduction: Reduction) -> bool:
    """Whether the result of `op` stays the same if every device holds it as a partial value.

    This holds for uninitialized tensors and identities, and for any splat under `max` and `min`.
    """
    if op.name == "tensor.empty":
        return True
    value = op.operands[0] if op.name == "linalg.fill" else op.results[0]
    if reduction in ("max", "min"):
        return op.name == "linalg.fill" or is_splat(constant_behind(value))
    return is_identity(reduction, value)


def is_identity(reduction: Reduction, value: ir.Value) -> bool:
    """Whether a constant, or its repeated element, is an identity of `reduction`.

    For sums, -0.0 is one, too.
    """
    if _is_the_identity(reduction, value):
        return True
    known = _repeated(value)
    return reduction == "sum" and isinstance(known, ir.FloatAttr) and known.value == 0.0


def combine(reduction: Reduction, a: ir.Value, b: ir.Value) -> ir.Value:
    """Combine two tensors, or two elements, of one type by the reduction.

    Raises `ShardingError` where no op does.
    """
    is_tensor = isinstance(a.type, ir.ShapedType)
    element = a.type.element_type if is_tensor else a.type
    is_complex = isinstance(element, ir.ComplexType)
    kind = 0 if isinstance(element, ir.FloatType) else 2 if is_complex else 1
    name = _COMBINERS[reduction][kind] if reduction in _COMBINERS else ""
    if not name:
        raise ShardingError(f"no op joins two elements of {element} by {reduction}")
    if is_complex and is_tensor:  # `complex` has ops of elements alone
        return elementwise([a, b], lambda x, y: create_value(name, x.type, [x, y]))
    plain = signless(a.type)
    if is_unsigned(element):
        name = _OF_UNSIGNED.get(name, name)
    return as_type(create_value(name, plain, [as_type(a, plain), as_type(b, plain)]), a.type)


def identity(reduction: Reduction, element: ir.Type) -> ir.Attribute:
    """The identity of `reduction`, as an attribute of type `element`.

    Raises `ShardingError` where there is none, and for complex numbers, which have no attributes.
    """
    if isinstance(element, ir.FloatType):
        values = {"sum": 0.0, "product": 1.0, "max": -inf, "min": inf}
        if reduction in values:
            unknown = ir.Location.unknown()
            return ir.FloatAttr.get(element, values[reduction], loc=unknown)
    elif (bits := _bits(reduction, element)) is not None:
        return ir.IntegerAttr.get(element, bits)
    raise ShardingError(f"no {element} changes nothing under {reduction}")


def identity_value(reduction: Reduction, element: ir.Type) -> ir.Value:
    """The identity of `reduction` as a value, for any element type."""
    if isinstance(element, ir.ComplexType):
        constant = _complex_identity(reduction, element)
        return create_value("complex.constant", element, [], {"value": constant})
    if signless(element) == element:
        return scalar(identity(reduction, element))
    one = identity_tensor(reduction, ir.RankedTensorType.get([1], element))
    return create_value("tensor.extract", element, [one, index(0)])


def identity_tensor(reduction: Reduction, type_: ir.RankedTensorType) -> ir.Value:
    """A tensor filled with the identity of `reduction`."""
    element = type_.element_type
    if isinstance(element, ir.ComplexType):
        return create_value("tensor.splat", type_, [identity_value(reduction, element)])
    plain, one = signless(type_), identity(reduction, element)
    if plain != type_:
        one = ir.IntegerAttr.get(plain.element_type, _bits(reduction, element))
    return as_type(scalar(ir.DenseElementsAttr.get_splat(plain, one)), type_)


def reduction_with_identity(value: ir.Value) -> Reduction | None:
    """The first reduction whose identity a constant, or its repeated element, is."""
    kinds: tuple[Reduction, ...] = ("sum", "max", "min", "product")
    return next((kind for kind in kinds if _is_the_identity(kind, value)), None)


def _is_the_identity(reduction: Reduction, value: ir.Value) -> bool:
    """Whether `value` equals `identity_value` or `identity_tensor` bit for bit."""
    is_tensor = isinstance(value.type, ir.RankedTensorType)
    element = value.type.element_type if is_tensor else value.type
    is_complex = isinstance(element, ir.ComplexType)
    known = constant_behind(value) if is_complex else _repeated(value)
    if known is None:
        return False
    try:
        if is_complex:
            return bool(known == _complex_identity(reduction, value.type))
        return bool(known == identity(reduction, element))
    except ShardingError:
        return False


def _repeated(value: ir.Value) -> ir.Attribute | None:
    """The value of a constant, or its repeated element; `None` for complex numbers."""
    is_tensor = isinstance(value.type, ir.RankedTensorType)
    return splat_value(value) if is_tensor else constant_value(value)


def _bits(reduction: Reduction, element: ir.Type) -> int | None:
    """The identity of `reduction` on integers, in two's complement; `None` for other types."""
    if not isinstance(element, (ir.IntegerType, ir.IndexType)):
        return None
    top = 2 ** ((element.width if isinstance(element, ir.IntegerType) else 64) - 1)
    identities = {"sum": 0, "product": 1, "max": -top, "min": top - 1}
    identities |= {"bitwise_and": -1, "bitwise_or": 0, "bitwise_xor": 0}
    if is_unsigned(element):
        identities |= {"max": 0, "min": -1}
    return identities.get(reduction)


def _complex_identity(reduction: Reduction, type_: ir.Type) -> ir.Attribute:
    """The identity of complex numbers, as the attribute of a scalar or a tensor constant."""
    element = type_.element_type if isinstance(type_, ir.RankedTensorType) else type_
    component = element.element_type
    if reduction not in ("sum", "product"):
        raise ShardingError(f"no {element} changes nothing under {reduction}")
    if type_ == element:
        return ir.ArrayAttr.get([identity(reduction, component), identity("sum", component)])
    one = "1.0" if reduction == "product" else "0.0"
    return ir.Attribute.parse(f"dense<({one}, 0.0)> : {type_}")
