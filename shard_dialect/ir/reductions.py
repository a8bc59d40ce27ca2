"""What each reduction is in ops: what joins two elements, and what changes nothing."""

from __future__ import annotations

from math import inf

from shard_dialect.ir.bindings import ir
from shard_dialect.ir.build import constant_value, create, scalar, splat_value
from shard_dialect.model import Reduction, ShardingError

_COMBINERS: dict[Reduction, tuple[str, str]] = {
    "sum": ("arith.addf", "arith.addi"),
    "product": ("arith.mulf", "arith.muli"),
    "max": ("arith.maximumf", "arith.maxsi"),
    "min": ("arith.minimumf", "arith.minsi"),
    "bitwise_and": ("", "arith.andi"),
    "bitwise_or": ("", "arith.ori"),
    "bitwise_xor": ("", "arith.xori"),
}
"""For each reduction the op that joins two floats, and two integers."""

BITWISE: tuple[Reduction, ...] = ("bitwise_and", "bitwise_or", "bitwise_xor")
"""Those that join elements of one bit, too."""

REDUCTION_OF: dict[str, Reduction] = {
    name: reduction for reduction, names in _COMBINERS.items() for name in names if name
}
"""The reduction that an op joins two values by. Unsigned and NaN-ignoring ones are not here because
no collective combines as they do."""


def may_be_partial(op: ir.Operation, reduction: Reduction) -> bool:
    """Whether the tensor that `op` makes means the same when every device has it as its part.

    What was never written does, a repeated identity does, and for `max` and `min` anything does.
    """
    if op.name == "tensor.empty":
        return True
    element = op.results[0].type.element_type
    if op.name == "linalg.fill":
        repeated = constant_value(op.operands[0])
    else:
        repeated = splat_value(op.results[0])
        if repeated is None:
            return False
    return reduction in ("max", "min") or repeated == identity(reduction, element)


def combine(reduction: Reduction, a: ir.Value, b: ir.Value) -> ir.Operation:
    """Join two tensors, or two elements, of one type by the reduction."""
    is_tensor = isinstance(a.type, ir.ShapedType)
    element = a.type.element_type if is_tensor else a.type
    name = _COMBINERS.get(reduction, ("", ""))[0 if isinstance(element, ir.FloatType) else 1]
    if not name:
        raise ShardingError(f"no op joins two elements of {element} by {reduction}")
    return create(name, [a.type], [a, b])


def identity(reduction: Reduction, element: ir.Type) -> ir.Attribute:
    """The value that changes nothing under `reduction`, as an attribute of type `element`.

    Raises `ShardingError` where there is none.
    """
    if isinstance(element, ir.FloatType):
        values = {"sum": 0.0, "product": 1.0, "max": -inf, "min": inf}
        if reduction in values:
            unknown = ir.Location.unknown()
            return ir.FloatAttr.get(element, values[reduction], loc=unknown)
    else:
        width = 64 if isinstance(element, ir.IndexType) else element.width
        top = 2 ** (width - 1)
        whole = {"sum": 0, "product": 1, "max": -top, "min": top - 1}
        whole |= {"bitwise_and": -1, "bitwise_or": 0, "bitwise_xor": 0}
        if reduction in whole:
            return ir.IntegerAttr.get(element, whole[reduction])
    raise ShardingError(f"no {element} changes nothing under {reduction}")


def neutral(reduction: Reduction, element: ir.Type) -> ir.Value:
    """What changes nothing under `reduction`, as a value; of complex numbers, too."""
    if not isinstance(element, ir.ComplexType):
        return scalar(identity(reduction, element)).results[0]
    part = element.element_type
    parts = ir.ArrayAttr.get([identity(reduction, part), identity("sum", part)])
    return create("complex.constant", [element], [], {"value": parts}).results[0]


def identities(reduction: Reduction, type_: ir.RankedTensorType) -> ir.Operation:
    """A tensor of what changes nothing under `reduction`, of complex elements too."""
    element = type_.element_type
    if isinstance(element, ir.ComplexType):  # of these the bindings have no attributes
        return create("tensor.splat", [type_], [neutral(reduction, element)])
    return scalar(ir.DenseElementsAttr.get_splat(type_, identity(reduction, element)))


def zero(element: ir.Type) -> ir.Attribute | None:
    """As an attribute of type `element`; `None` where `arith` has no constants of it."""
    is_signed = isinstance(element, ir.IntegerType) and not element.is_signless
    return None if is_signed or isinstance(element, ir.ComplexType) else identity("sum", element)


def left_alone_by(value: ir.Value) -> Reduction | None:
    """The first reduction that a constant, or the element it repeats, changes nothing under."""
    is_tensor = isinstance(value.type, ir.RankedTensorType)
    repeated = splat_value(value) if is_tensor else constant_value(value)
    if repeated is None or zero(repeated.type) is None:
        return None
    kinds: tuple[Reduction, ...] = ("sum", "max", "min", "product")
    return next((kind for kind in kinds if repeated == identity(kind, repeated.type)), None)
