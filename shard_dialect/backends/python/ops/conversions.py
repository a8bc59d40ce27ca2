"""Emit conversions of elements, comparisons, and constants.

A scalar constant is a number where it is used, and a tensor is written by its elements.
"""

from __future__ import annotations

import re
from math import prod

from shard_dialect.backends.python.element_types import (
    element_of,
    elements_of,
    is_complex,
    is_flipped,
    is_unsigned,
    unsigned_view,
)
from shard_dialect.backends.python.ops.elementwise import as_unsigned, operands_of
from shard_dialect.backends.python.writer import Writer
from shard_dialect.ir.bindings import ir
from shard_dialect.ir.building import stablehlo as hlo

_FLOAT_ORDER = {1: "==", 2: ">", 3: ">=", 4: "<", 5: "<=", 13: "!="}
_INTEGER_ORDER = {0: "==", 1: "!=", 2: "<", 3: "<=", 4: ">", 5: ">="}
_INTEGER_ORDER |= {6: "<", 7: "<=", 8: ">", 9: ">="}
_LAST_SIGNED = 5
"""The last predicate of signed integers; those of unsigned ones follow."""
_DIRECTIONS = {"EQ": "==", "NE": "!=", "LT": "<", "LE": "<=", "GT": ">", "GE": ">="}


def cast(w: Writer, op: ir.Operation) -> None:
    """Write a conversion of elements."""
    x = op.operands[0]
    source, target = element_of(x.type), element_of(op.results[0].type)
    is_bit = str(source) == "i1"
    is_of_arith = op.name.startswith("arith.")
    if is_of_arith and is_bit and op.name not in ("arith.extui", "arith.uitofp"):
        raise w.refuse(op, f"of elements of type {source}")
    if is_of_arith and str(target) == "i1" and not isinstance(source, ir.IntegerType):
        raise w.refuse(op, "to elements of type i1")
    text = w.use(x)
    if w.is_python(x.type) and x not in w.extents:
        text = w.scalar(text, target, op.location)
    elif op.name == "arith.trunci" and str(target) == "i1":
        text = f"{text} & 1 != 0"
    else:
        is_unsigned_op = op.name in ("arith.extui", "arith.uitofp") and not is_bit
        text = converted(w, text, source, target, op, is_unsigned_op=is_unsigned_op)
        if op.name == "arith.fptoui" and not w.is_torch:
            text = f"{w.kept('unsigned', text)}.view({w.dtype(target, op.location)})"
    w.define(op.results[0], text, "cast")


def converted(
    w: Writer, x: str, source: ir.Type, target: ir.Type, op: ir.Operation, *, is_unsigned_op: bool
) -> str:
    """The elements `x` of type `source` as those of type `target`."""
    if is_complex(source) and not is_complex(target):
        return w.cast(f"{x}.real", target, op.location)
    from_unsigned = is_unsigned_op or is_flipped(source)
    to_unsigned = op.name == "arith.fptoui" or is_flipped(target)
    if not w.is_torch:
        x = as_unsigned(w, x, source) if is_unsigned_op else x
        if op.name == "arith.fptoui":
            return f"{x}.astype({unsigned_view(target)})"
        return w.cast(x, target, op.location)
    dtype = w.dtype(target, op.location)
    if from_unsigned and str(target) != "i1":
        return f"from_unsigned({x}, {dtype})"
    if to_unsigned and isinstance(source, ir.FloatType):
        return f"to_unsigned({x}, {dtype})"
    return w.cast(x, target, op.location)


def bitcast(w: Writer, op: ir.Operation) -> None:
    """Write the bits of elements as elements of another type.

    One of more bits is a row of those of fewer, in StableHLO, numpy and torch alike.
    """
    source, target = (each.type for each in (op.operands[0], op.results[0]))
    if "i1" in (str(element_of(source)), str(element_of(target))):
        raise w.refuse(op, "of elements of type i1")
    (x,) = w.uses(op)
    if not isinstance(source, ir.ShapedType):
        x = w.scalar(x, source, op.location) if w.is_python(source) else x
    elif len(target.shape) > len(source.shape):
        x = f"{x}[..., None]"
    elif len(target.shape) < len(source.shape):
        x = w.pick(f"np.ascontiguousarray({x})", f"{x}.contiguous()")
    text = f"{x}.view({w.dtype(element_of(target), op.location)})"
    if isinstance(source, ir.ShapedType) and len(target.shape) < len(source.shape):
        text = f"{text}[..., 0]"
    w.define(op.results[0], text, "bits")


def compare(w: Writer, op: ir.Operation) -> None:
    """Write a comparison."""
    element = element_of(op.operands[0].type)
    as_if_unsigned = is_unsigned(element)
    if op.name == "stablehlo.compare":
        direction = hlo.direction_of(op)
        order: str | None = _DIRECTIONS[direction]
        kind = str(op.attributes["compare_type"]) if "compare_type" in op.attributes else ""
        if "TOTAL" in kind:
            order = None
        as_if_unsigned |= "UNSIGNED" in kind and str(element) != "i1"
    elif str(element) == "i1":
        order = {0: "==", 1: "!="}.get(op.attributes["predicate"].value)  # its one is -1
    else:
        table = _FLOAT_ORDER if op.name == "arith.cmpf" else _INTEGER_ORDER
        predicate = op.attributes["predicate"].value
        as_if_unsigned |= op.name == "arith.cmpi" and predicate > _LAST_SIGNED
        order = table.get(predicate)
    negated = _UNORDERED.get(op.attributes["predicate"].value) if op.name == "arith.cmpf" else None
    if negated is not None:
        a, b = operands_of(w, op, is_operator=True)
        w.define(op.results[0], f"({a} {negated} {b}) == False", "compared")
        return
    if order is None:
        raise w.refuse(op, "of bits, or with a meaning for what is no number")
    is_signless = not is_unsigned(element)
    a, b = operands_of(w, op, is_operator=True)
    if as_if_unsigned and order not in ("==", "!=") and not isinstance(element, ir.IndexType):
        if w.is_torch and str(element) != "ui8":
            a, b = (f"flipped({each})" for each in w.uses(op))
        elif is_signless:
            a, b = (as_unsigned(w, each, element) for each in w.uses(op))
    w.define(op.results[0], f"{a} {order} {b}", "compared")


def equal(w: Writer, op: ir.Operation) -> None:
    """Write whether complex numbers are equal, or are not."""
    a, b = w.uses(op)
    w.define(op.results[0], f"{a} {'==' if op.name == 'complex.eq' else '!='} {b}", "compared")


def index_cast(w: Writer, op: ir.Operation) -> None:
    """Write a conversion between indices and integers."""
    (x,) = w.uses(op)
    if isinstance(op.results[0].type, ir.IndexType):
        w.define(op.results[0], f"int({x})", "index")
    elif isinstance(op.results[0].type, ir.ShapedType):
        w.define(op.results[0], w.cast(x, element_of(op.results[0].type), op.location), "cast")
    else:
        w.define(op.results[0], w.scalar(x, op.results[0].type, op.location), "number")


def between_scalars(w: Writer, result: ir.Value, x: ir.Value) -> None:
    """Let `result` be `x`, which of the two may be a Python number."""
    text = w.use(x)
    if not isinstance(result.type, ir.ShapedType) and isinstance(x.type, ir.ShapedType):
        text = w.literals.get(x, f"int({text})" if isinstance(result.type, ir.IndexType) else text)
    elif w.is_python(x.type) and x.type != result.type:
        text = w.scalar(text, element_of(result.type), result.location)
    w.values[result] = text


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
    is_long = prod(type_.shape) > _LONGEST
    written = _as_bytes if is_long else _written_out
    text = written(w, op, attribute, dtype)
    with w.beside():  # made once, and not in each call
        if len(type_.shape) != 1:  # which is written apart, so that the elements can be folded
            elements = w.kept("elements", text)
            w.called.add(elements)
            text = f"{elements}.reshape{tuple(type_.shape)}"
        w.define(result, text, "constant")
    w.called.add(w.values[result])


def _written_out(w: Writer, op: ir.Operation, attribute: ir.Attribute, dtype: str) -> str:
    element = element_of(op.results[0].type)
    flat = f"[{', '.join(w.number(each, element) for each in elements_of(attribute))}]"
    return w.pick(
        f"np.array({flat}, {dtype})", f"torch.tensor({flat}, dtype={dtype}, device=device)"
    )


def _as_bytes(w: Writer, op: ir.Operation, attribute: ir.Attribute, dtype: str) -> str:
    """Many elements, which nobody reads, as MLIR prints them: their bytes."""
    match = _BYTES.match(str(attribute))
    if match is None or op.results[0].type.element_type == ir.IntegerType.get_signless(1):
        raise w.refuse(op, f"{len(attribute)} elements are too many to be read")
    return w.pick(
        f'np.frombuffer(bytearray.fromhex("{match[1]}"), {dtype})',
        f'torch.frombuffer(bytearray.fromhex("{match[1]}"), dtype={dtype}).to(device)',
    )


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


_BYTES = re.compile(r'dense<"0x([0-9A-F]+)">')
_LONGEST = 1000
_UNORDERED = {9: "<=", 10: "<", 11: ">=", 12: ">"}
"""What `ugt`, `uge`, `ult` and `ule` are the opposite of: they hold for what is no number."""
