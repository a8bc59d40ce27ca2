"""Emit constants: a number where it is used, a tensor by its elements."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from shard_dialect.emit.element_types import element_of, elements_of
from shard_dialect.emit.writer import Writer
from shard_dialect.ir.bindings import ir


def constant(w: Writer, op: ir.Operation) -> None:
    """Write a constant; a number is written where it is used."""
    result = op.results[0]
    type_ = result.type
    element = element_of(type_)
    dtype = w.dtype(element, op.location)
    attribute = op.attributes["value"]
    if not isinstance(attribute, ir.DenseElementsAttr):
        if isinstance(type_, ir.ShapedType):
            raise w.refuse(op, "its elements are not in the file")
        _number(w, op, attribute)
        return
    if attribute.is_splat:
        number = w.number(_repeated(attribute), element)
        w.literals[result] = number
        w.values[result] = w.full(type_, number, op.location)
        return
    if prod(type_.shape) > _LONGEST:
        raise w.refuse(op, f"{prod(type_.shape)} elements are too many to be read")
    elements = [w.number(each, element) for each in elements_of(attribute)]
    flat = f"[{', '.join(elements)}]"
    text = w.pick(
        f"np.array({flat}, {dtype})", f"torch.tensor({flat}, dtype={dtype}, device=device)"
    )
    if len(type_.shape) != 1:  # which is written apart, so that the elements can be folded
        text = f"{w.kept('elements', text)}.reshape{tuple(type_.shape)}"
    w.define(result, text, "constant")


def _repeated(attribute: ir.Attribute) -> complex:
    value = attribute.get_splat_value()
    if isinstance(value, ir.ArrayAttr):  # of the parts of a complex number
        return complex(*(each.value for each in value))
    number: complex = value.value
    return number


def _number(w: Writer, op: ir.Operation, attribute: ir.Attribute) -> None:
    result = op.results[0]
    is_pair = isinstance(attribute, ir.ArrayAttr)
    value = complex(*(each.value for each in attribute)) if is_pair else attribute.value
    number = w.number(value, result.type)
    w.literals[result] = number
    is_python = w.is_python(result.type)
    w.values[result] = number if is_python else w.scalar(number, result.type, op.location)


_LONGEST = 1000


TABLE: dict[str, Callable[[Writer, ir.Operation], None]] = {
    "arith.constant": constant,
    "complex.constant": constant,
    "stablehlo.constant": constant,
}
