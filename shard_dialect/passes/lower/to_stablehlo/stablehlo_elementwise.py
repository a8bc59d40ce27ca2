"""Elementwise ops of `arith`, `math` and `complex` as StableHLO's, on tensors of one shape.

    arith.addf              stablehlo.add
    arith.divui             stablehlo.divide of the same bits as unsigned integers
    arith.cmpf ult          stablehlo.not of stablehlo.compare GE

The body of a `linalg.generic` is converted by the same table, on tensors of the loops' sizes.

Elementary functions that StableHLO has no op for are CHLO's: `math.erf` is `chlo.erf`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import log
from typing import Any

from shard_dialect.errors import ShardError
from shard_dialect.ir.bindings import ir
from shard_dialect.ir.building import stablehlo as hlo
from shard_dialect.ir.building.build import OF_INTEGERS, integer
from shard_dialect.ops.op_table import record_of, traits_of
from shard_dialect.ops.scalar_functions import Trait

Operands = Sequence[ir.Value]


def is_elementwise(op: ir.Operation) -> bool:
    """Whether `elementwise` knows the op."""
    return _written(op) is not None


def _written(op: ir.Operation) -> Callable[..., Any] | str | None:
    """StableHLO's op for an elementwise op, or the function that creates its results.

    Those of `linalg` and `tosa` have other operands, too, and are lowered before.
    """
    record = record_of(op)
    function = record.scalar_function if record else None
    if record is None or function is None or op.name.startswith(("linalg.", "tosa.")):
        return None
    return record.stablehlo or function.stablehlo or None


def elementwise(op: ir.Operation, operands: Operands) -> list[ir.Value]:
    """The results of `op` on tensors; those of rank 0 are used for all elements of the others.

    Raises `ShardError` where StableHLO has no op for it.
    """
    shape = max((list(each.type.shape) for each in operands), key=len, default=[])
    operands = [
        hlo.broadcast(each, shape) if len(each.type.shape) < len(shape) else each
        for each in operands
    ]
    element = hlo.tensor_type(op.results[0].type).element_type
    written = _written(op)
    if not isinstance(written, str):
        assert written is not None, "`is_elementwise` has been asked"
        return listed(written(op, operands, element))
    if Trait.UNSIGNED in traits_of(op.name):
        return [on_unsigned(written, op, operands, element)]
    if str(element) == "i1":  # as signed integers, a bit that is set is -1
        written = {"maximum": "and", "minimum": "or"}.get(written, written)
    return [hlo.stablehlo_op(written, hlo.tensor(shape, element), operands)]


def listed(values: ir.Value | Sequence[ir.Value]) -> list[ir.Value]:
    """The values that a record's function returns, one or several, as a list."""
    return [values] if isinstance(values, ir.Value) else list(values)


def constant_of(op: ir.Operation, *_: object) -> ir.Value:
    """The constant of an `arith.constant`."""
    value = op.attributes["value"]
    type_ = hlo.tensor_type(value.type)
    if not isinstance(value.type, ir.RankedTensorType):
        if isinstance(value.type, ir.IndexType) or isinstance(value, ir.IntegerAttr):
            return hlo.splat(
                ir.IntegerAttr.get(type_.element_type, ir.IntegerAttr(value).value), type_
            )
        return hlo.splat(value, type_)
    if type_ == value.type:
        return hlo.constant(value)
    return hlo.constant(ir.Attribute.parse(f"{str(value).rpartition(' : ')[0]} : {type_}"))


def complex_constant_of(op: ir.Operation, *_: object) -> ir.Value:
    """The constant of a `complex.constant`, of rank 0."""
    element = op.results[0].type.element_type
    parts = [hlo.constant(ir.DenseElementsAttr.get([each], hlo.tensor((), element)))
             for each in op.attributes["value"]]  # fmt: skip
    return hlo.stablehlo_op("complex", hlo.tensor((), op.results[0].type), parts)


def _unsigned(value: ir.Value) -> ir.Value:
    """The same bits as an unsigned integer; a bit is one already."""
    width = value.type.element_type.width
    return value if width == 1 else hlo.bitcast(value, ir.IntegerType.get_unsigned(width))


def on_unsigned(name: str, _: ir.Operation, operands: Operands, element: ir.Type) -> ir.Value:
    """StableHLO's op on the same bits as unsigned integers."""
    given = [_unsigned(each) for each in operands]
    return hlo.bitcast(hlo.stablehlo_op(name, given[0].type, given), element)


def converted(_: ir.Operation, operands: Operands, element: ir.Type) -> ir.Value:
    """The elements converted as StableHLO does."""
    return hlo.convert(operands[0], element)


def from_signed(_: ir.Operation, operands: Operands, element: ir.Type) -> ir.Value:
    """A bit that is set is -1."""
    (value,) = operands
    result = hlo.convert(value, element)
    is_bit = str(value.type.element_type) == "i1"
    return hlo.stablehlo_op("negate", result.type, [result]) if is_bit else result


def from_unsigned(_: ir.Operation | None, operands: Operands, element: ir.Type) -> ir.Value:
    """Unsigned integers converted."""
    value = _unsigned(operands[0])
    if isinstance(element, ir.IntegerType) and element.is_signless and element.width > 1:
        return hlo.bitcast(hlo.convert(value, ir.IntegerType.get_unsigned(element.width)), element)
    return hlo.convert(value, element)


def to_unsigned(_: ir.Operation, operands: Operands, element: ir.Type) -> ir.Value:
    """Floats converted to the bits of unsigned integers."""
    if element.width == 1:
        return hlo.convert(operands[0], element)
    return hlo.bitcast(
        hlo.convert(operands[0], ir.IntegerType.get_unsigned(element.width)), element
    )


def truncated(_: ir.Operation, operands: Operands, element: ir.Type) -> ir.Value:
    """To a bit: the lowest; StableHLO's conversion asks whether any is set."""
    (value,) = operands
    if element.width == 1:
        value = hlo.stablehlo_op("and", value.type, [value, hlo.number(1, value.type)])
    return hlo.convert(value, element)


def _not(value: ir.Value) -> ir.Value:
    return hlo.stablehlo_op("not", value.type, [value])


def _either(a: ir.Value, b: ir.Value) -> ir.Value:
    return hlo.stablehlo_op("or", a.type, [a, b])


def _is_nan(value: ir.Value) -> ir.Value:
    return hlo.compare("NE", value, value)


def compared_floats(op: ir.Operation, operands: Operands, _: ir.Type) -> ir.Value:
    """StableHLO's comparisons are false for NaN, but `NE`."""
    a, b = operands
    if (name := _FLOAT_ORDER[op.attributes["predicate"].value]) in ("true", "false"):
        bits = hlo.tensor(a.type.shape, integer(1))
        return hlo.number(name == "true", bits)
    if name in _ORDERED:
        return hlo.compare(_ORDERED[name], a, b)
    if name in _UNORDERED:
        return _not(hlo.compare(_UNORDERED[name], a, b))
    unordered = _either(_is_nan(a), _is_nan(b))
    if name in ("ord", "uno"):
        return unordered if name == "uno" else _not(unordered)
    different = _either(hlo.compare("LT", a, b), hlo.compare("GT", a, b))
    return different if name == "one" else _not(different)


_FLOAT_ORDER = "false oeq ogt oge olt ole one ord ueq ugt uge ult ule une uno true".split()
"""`arith.cmpf`'s predicates by number."""
_ORDERED = {"oeq": "EQ", "ogt": "GT", "oge": "GE", "olt": "LT", "ole": "LE", "une": "NE"}
_UNORDERED = {"ugt": "LE", "uge": "LT", "ult": "GE", "ule": "GT"}
"""Predicates that hold for NaN, with the comparison that holds where they do not."""


def compared_integers(op: ir.Operation, operands: Operands, _: ir.Type) -> ir.Value:
    """The comparison of a predicate, of signed integers or of unsigned ones."""
    name = OF_INTEGERS[op.attributes["predicate"].value]
    a, b = operands
    if name in ("eq", "ne"):
        return hlo.compare(name.upper(), a, b)
    direction = name[1:].upper()
    if name[0] == "u":
        return hlo.compare(direction, _unsigned(a), _unsigned(b))
    if a.type.element_type.width == 1:
        a, b = b, a  # as signed integers, a bit that is set is -1
    return hlo.compare(direction, a, b)


def number_order(name: str, _: ir.Operation, operands: Operands, __: ir.Type) -> ir.Value:
    """A maximum or minimum that prefers numbers to NaN."""
    a, b = operands
    joined = hlo.stablehlo_op(name, a.type, [a, b])
    return hlo.select(_is_nan(a), b, hlo.select(_is_nan(b), a, joined))


def scaled_log(base: float, _: ir.Operation, operands: Operands, __: ir.Type) -> ir.Value:
    """A logarithm to another base than e."""
    (value,) = operands
    natural = hlo.stablehlo_op("log", value.type, [value])
    return hlo.stablehlo_op("divide", value.type, [natural, hlo.number(log(base), value.type)])


def power_of_two(_: ir.Operation, operands: Operands, __: ir.Type) -> ir.Value:
    """The power, with the base 2."""
    (value,) = operands
    return hlo.stablehlo_op("power", value.type, [hlo.number(2, value.type), value])


def integer_power(_: ir.Operation, operands: Operands, element: ir.Type) -> ir.Value:
    """The power, with the exponent as a float."""
    value, exponent = operands
    return hlo.stablehlo_op("power", value.type, [value, hlo.convert(exponent, element)])


def toward_zero(_: ir.Operation, operands: Operands, __: ir.Type) -> ir.Value:
    """Rounded toward zero."""
    (value,) = operands
    is_negative = hlo.compare("LT", value, hlo.number(0, value.type))
    up, down = (hlo.stablehlo_op(name, value.type, [value]) for name in ("ceil", "floor"))
    return hlo.select(is_negative, up, down)


def multiply_add(_: ir.Operation, operands: Operands, __: ir.Type) -> ir.Value:
    """A product and a sum, rounded each."""
    a, b, c = operands
    return hlo.stablehlo_op("add", a.type, [hlo.stablehlo_op("multiply", a.type, [a, b]), c])


def copied_sign(_: ir.Operation, operands: Operands, element: ir.Type) -> ir.Value:
    """The magnitude with the sign bit of the second operand."""
    magnitude, sign = operands
    bits = integer(element.width)
    is_negative = hlo.compare(
        "LT", hlo.bitcast(sign, bits), hlo.number(0, hlo.tensor(sign.type.shape, bits))
    )
    positive = hlo.stablehlo_op("abs", magnitude.type, [magnitude])
    return hlo.select(is_negative, hlo.stablehlo_op("negate", positive.type, [positive]), positive)


def is_infinite(_: ir.Operation, operands: Operands, __: ir.Type) -> ir.Value:
    """Whether the magnitude is infinite."""
    (value,) = operands
    return hlo.compare(
        "EQ", hlo.stablehlo_op("abs", value.type, [value]), hlo.number(float("inf"), value.type)
    )


def rounded_quotient(
    direction: str, step: int, _: ir.Operation, operands: Operands, __: ir.Type
) -> ir.Value:
    """A signed division that rounds up (a `step` of 1), or down; StableHLO's is toward zero."""
    a, b = operands
    zero = hlo.number(0, a.type)
    quotient, rest = (hlo.stablehlo_op(name, a.type, [a, b]) for name in ("divide", "remainder"))
    signs = hlo.stablehlo_op("xor", a.type, [rest, b])
    inexact = hlo.compare("NE", rest, zero)
    moves = hlo.stablehlo_op("and", inexact.type, [inexact, hlo.compare(direction, signs, zero)])
    moved = hlo.stablehlo_op("add", a.type, [quotient, hlo.number(step, a.type)])
    return hlo.select(moves, moved, quotient)


def clamped(_: ir.Operation, operands: Operands, __: ir.Type) -> ir.Value:
    """Where `low` is above `high`, the result is `low`; `stablehlo.clamp` gives `high`."""
    value, low, high = operands
    below = hlo.stablehlo_op("minimum", value.type, [value, high])
    return hlo.stablehlo_op("maximum", value.type, [below, low])


def conjugate(_: ir.Operation, operands: Operands, __: ir.Type) -> ir.Value:
    """The number with its imaginary part negated."""
    (value,) = operands
    part = hlo.tensor(value.type.shape, value.type.element_type.element_type)
    real, imaginary = (hlo.stablehlo_op(name, part, [value]) for name in ("real", "imag"))
    return hlo.stablehlo_op(
        "complex", value.type, [real, hlo.stablehlo_op("negate", part, [imaginary])]
    )


def equality(direction: str, _: ir.Operation, operands: Operands, __: ir.Type) -> ir.Value:
    """Whether complex numbers are equal, or are not."""
    return hlo.compare(direction, *operands)


def ceil_quotient(_: ir.Operation, operands: Operands, element: ir.Type) -> ir.Value:
    """An unsigned division that rounds up."""
    a, b = map(_unsigned, operands)
    quotient, rest = (hlo.stablehlo_op(name, a.type, [a, b]) for name in ("divide", "remainder"))
    more = hlo.convert(hlo.compare("NE", rest, hlo.number(0, a.type)), a.type.element_type)
    return hlo.bitcast(hlo.stablehlo_op("add", a.type, [quotient, more]), element)


def sum_and_carry(_: ir.Operation, operands: Operands, __: ir.Type) -> list[ir.Value]:
    """The sum, and whether it is less than an addend, as unsigned integers."""
    a, b = operands
    total = hlo.stablehlo_op("add", a.type, [a, b])
    return [total, hlo.compare("LT", _unsigned(total), _unsigned(a))]


def difference_and_borrow(_: ir.Operation, operands: Operands, __: ir.Type) -> list[ir.Value]:
    """The difference, and whether it is negative, of unsigned integers."""
    a, b = operands
    return [
        hlo.stablehlo_op("subtract", a.type, [a, b]),
        hlo.compare("LT", _unsigned(a), _unsigned(b)),
    ]


def halves_of_product(
    is_unsigned: bool, op: ir.Operation, operands: Operands, element: ir.Type
) -> list[ir.Value]:
    """The low and the high half of a product."""
    if element.width not in (8, 16, 32):
        raise ShardError(f"a product of {element} in two halves cannot be written as StableHLO")
    wide = integer(2 * element.width)
    extend = from_unsigned if is_unsigned else converted
    factors = [extend(op, [each], wide) for each in operands]
    product = hlo.stablehlo_op("multiply", factors[0].type, factors)
    shifted = [product, hlo.number(element.width, product.type)]
    high = hlo.stablehlo_op("shift_right_logical", product.type, shifted)
    return [hlo.convert(product, element), hlo.convert(high, element)]


def sine_and_cosine(_: ir.Operation, operands: Operands, __: ir.Type) -> list[ir.Value]:
    """Both functions of one value."""
    (value,) = operands
    return [hlo.stablehlo_op(name, value.type, [value]) for name in ("sine", "cosine")]


def bits(_: ir.Operation, operands: Operands, element: ir.Type) -> ir.Value:
    """The same bits as other elements."""
    return hlo.bitcast(operands[0], element)


def is_nan(_: ir.Operation, operands: Operands, __: ir.Type) -> ir.Value:
    """Whether a float is no number."""
    return _is_nan(operands[0])
