"""What each reduction is in ops: what joins two elements, and what changes nothing.

Elements are of any type that tensors are run with. `arith` knows of no integers with a sign in
their type, so these are taken for the signless ones of the same bits (`signless`), and joined, or
compared, as what they are.
"""

from __future__ import annotations

from math import inf

from shard_dialect.ir.bindings import ir
from shard_dialect.ir.building.build import (
    behind,
    constant_value,
    create,
    index,
    is_splat,
    scalar,
    splat_value,
)
from shard_dialect.ir.building.build_loops import elementwise
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
"""For each reduction the op that joins two floats, two integers, and two complex numbers."""

_OF_UNSIGNED = {"arith.maxsi": "arith.maxui", "arith.minsi": "arith.minui"}

BITWISE: tuple[Reduction, ...] = ("bitwise_and", "bitwise_or", "bitwise_xor")
"""Those that join elements of one bit, too."""

REDUCTION_OF: dict[str, Reduction] = {
    name: reduction for reduction, names in _COMBINERS.items() for name in names if name
}
"""The reduction that an op joins two values by. NaN-ignoring ones are not here because no
collective combines as they do, nor ops on signless elements that say themselves that these have no
sign."""


def signless(type_: ir.Type) -> ir.Type:
    """The type, of an element or a tensor, whose integers have no sign."""
    if isinstance(type_, ir.RankedTensorType):
        plain = signless(type_.element_type)
        if plain == type_.element_type:
            return type_
        return ir.RankedTensorType.get(type_.shape, plain, type_.encoding)
    if isinstance(type_, ir.IntegerType) and not type_.is_signless:
        return ir.IntegerType.get_signless(type_.width)
    return type_


def is_unsigned(element: ir.Type) -> bool:
    return isinstance(element, ir.IntegerType) and element.is_unsigned


def as_type(value: ir.Value, type_: ir.Type) -> ir.Value:
    """A tensor as one whose integers have another sign, or none: the same bits."""
    if value.type == type_:
        return value
    return create("tensor.bitcast", [type_], [value]).results[0]


def may_be_partial(op: ir.Operation, reduction: Reduction) -> bool:
    """Whether the tensor that `op` makes means the same when every device has it as its part.

    What was never written does, a repeated identity does, and for `max` and `min` anything does.
    """
    if op.name == "tensor.empty":
        return True
    value = op.operands[0] if op.name == "linalg.fill" else op.results[0]
    if reduction in ("max", "min"):
        return op.name == "linalg.fill" or is_splat(behind(value))
    return is_identity(reduction, value)


def is_identity(reduction: Reduction, value: ir.Value) -> bool:
    """Whether a constant, or the element that it repeats, changes nothing under `reduction`.

    For sums that is -0.0, too.
    """
    if _is_the_identity(reduction, value):
        return True
    known = _repeated(value)
    return reduction == "sum" and isinstance(known, ir.FloatAttr) and known.value == 0.0


def combine(reduction: Reduction, a: ir.Value, b: ir.Value) -> ir.Value:
    """Join two tensors, or two elements, of one type by the reduction."""
    is_tensor = isinstance(a.type, ir.ShapedType)
    element = a.type.element_type if is_tensor else a.type
    is_complex = isinstance(element, ir.ComplexType)
    kind = 0 if isinstance(element, ir.FloatType) else 2 if is_complex else 1
    name = _COMBINERS[reduction][kind] if reduction in _COMBINERS else ""
    if not name:
        raise ShardingError(f"no op joins two elements of {element} by {reduction}")
    if is_complex and is_tensor:  # `complex` has ops of elements alone
        return elementwise([a, b], lambda x, y: create(name, [x.type], [x, y]).results[0])
    plain = signless(a.type)
    if is_unsigned(element):
        name = _OF_UNSIGNED.get(name, name)
    return as_type(create(name, [plain], [as_type(a, plain), as_type(b, plain)]).results[0], a.type)


def identity(reduction: Reduction, element: ir.Type) -> ir.Attribute:
    """The value that changes nothing under `reduction`, as an attribute of type `element`.

    Raises `ShardingError` where there is none; of complex numbers there are no attributes.
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
    """What changes nothing under `reduction`, as a value of any type of elements."""
    if isinstance(element, ir.ComplexType):
        parts = _complex_identity(reduction, element)
        return create("complex.constant", [element], [], {"value": parts}).results[0]
    if signless(element) == element:
        return scalar(identity(reduction, element)).results[0]
    one = identity_tensor(reduction, ir.RankedTensorType.get([1], element))
    return create("tensor.extract", [element], [one, index(0)]).results[0]


def identity_tensor(reduction: Reduction, type_: ir.RankedTensorType) -> ir.Value:
    """A tensor of what changes nothing under `reduction`, as `identity_value`."""
    element = type_.element_type
    if isinstance(element, ir.ComplexType):
        return create("tensor.splat", [type_], [identity_value(reduction, element)]).results[0]
    plain, one = signless(type_), identity(reduction, element)
    if plain != type_:
        one = ir.IntegerAttr.get(plain.element_type, _bits(reduction, element))
    return as_type(scalar(ir.DenseElementsAttr.get_splat(plain, one)).results[0], type_)


def left_alone_by(value: ir.Value) -> Reduction | None:
    """The first reduction that a constant, or the element it repeats, changes nothing under."""
    kinds: tuple[Reduction, ...] = ("sum", "max", "min", "product")
    return next((kind for kind in kinds if _is_the_identity(kind, value)), None)


def _is_the_identity(reduction: Reduction, value: ir.Value) -> bool:
    """Whether `identity_value` or `identity_tensor` would be the same, to the bit."""
    is_tensor = isinstance(value.type, ir.RankedTensorType)
    element = value.type.element_type if is_tensor else value.type
    is_complex = isinstance(element, ir.ComplexType)
    known = behind(value) if is_complex else _repeated(value)
    if known is None:
        return False
    try:
        if is_complex:
            return bool(known == _complex_identity(reduction, value.type))
        return bool(known == identity(reduction, element))
    except ShardingError:
        return False


def _repeated(value: ir.Value) -> ir.Attribute | None:
    """What a constant is, or the element that it repeats, but for complex numbers."""
    is_tensor = isinstance(value.type, ir.RankedTensorType)
    return splat_value(value) if is_tensor else constant_value(value)


def _bits(reduction: Reduction, element: ir.Type) -> int | None:
    """The identity of integers, as the number that its bits are in two's complement."""
    if not isinstance(element, (ir.IntegerType, ir.IndexType)):
        return None
    top = 2 ** ((element.width if isinstance(element, ir.IntegerType) else 64) - 1)
    whole = {"sum": 0, "product": 1, "max": -top, "min": top - 1}
    whole |= {"bitwise_and": -1, "bitwise_or": 0, "bitwise_xor": 0}
    if is_unsigned(element):
        whole |= {"max": 0, "min": -1}
    return whole.get(reduction)


def _complex_identity(reduction: Reduction, type_: ir.Type) -> ir.Attribute:
    """As the attribute of a constant, of an element or a tensor."""
    element = type_.element_type if isinstance(type_, ir.RankedTensorType) else type_
    part = element.element_type
    if reduction not in ("sum", "product"):
        raise ShardingError(f"no {element} changes nothing under {reduction}")
    if type_ == element:
        return ir.ArrayAttr.get([identity(reduction, part), identity("sum", part)])
    one = "1.0" if reduction == "product" else "0.0"
    return ir.Attribute.parse(f"dense<({one}, 0.0)> : {type_}")
