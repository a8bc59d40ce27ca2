"""Elementwise ops of `arith`, `math` and `complex` as StableHLO's, on tensors of one shape.

    arith.addf              stablehlo.add
    arith.divui             stablehlo.divide of the same bits as unsigned integers
    arith.cmpf ult          stablehlo.not of stablehlo.compare GE

The body of a `linalg.generic` is converted by the same table, on tensors of the loops' sizes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import log

from shard_dialect.errors import ShardError
from shard_dialect.ir.bindings import ir
from shard_dialect.passes.lower.to_stablehlo.elementary_formulas import FORMULAS
from shard_dialect.passes.lower.to_stablehlo.stablehlo_builder import (
    bitcast,
    broadcast,
    compare,
    constant,
    convert,
    integer,
    number,
    select,
    splat,
    stablehlo_op,
    tensor,
    tensor_type,
)

Operands = Sequence[ir.Value]


def is_elementwise(op: ir.Operation) -> bool:
    """Whether `elementwise` knows the op."""
    return op.name in _SAME or op.name in _TABLE


def elementwise(op: ir.Operation, operands: Operands) -> ir.Value:
    """The result of `op` on tensors; those of rank 0 are used for all elements of the others.

    Raises `ShardError` where StableHLO has no op for it.
    """
    shape = max((list(each.type.shape) for each in operands), key=len)
    operands = [
        broadcast(each, shape) if len(each.type.shape) < len(shape) else each for each in operands
    ]
    element = tensor_type(op.results[0].type).element_type
    if op.name in _SAME:
        return stablehlo_op(_SAME[op.name], tensor(shape, element), operands)
    return _TABLE[op.name](op, operands, element)


def constant_of(op: ir.Operation) -> ir.Value:
    """The constant of an `arith.constant`."""
    value = op.attributes["value"]
    type_ = tensor_type(value.type)
    if not isinstance(value.type, ir.RankedTensorType):
        if isinstance(value.type, ir.IndexType) or isinstance(value, ir.IntegerAttr):
            return splat(ir.IntegerAttr.get(type_.element_type, ir.IntegerAttr(value).value), type_)
        return splat(value, type_)
    if type_ == value.type:
        return constant(value)
    return constant(ir.Attribute.parse(f"{str(value).rpartition(' : ')[0]} : {type_}"))


def complex_constant_of(op: ir.Operation) -> ir.Value:
    """The constant of a `complex.constant`, of rank 0."""
    element = op.results[0].type.element_type
    parts = [constant(ir.DenseElementsAttr.get([each], tensor((), element)))
             for each in op.attributes["value"]]  # fmt: skip
    return stablehlo_op("complex", tensor((), op.results[0].type), parts)


_SAME = {
    f"{dialect}.{name}": target
    for dialect, names in {
        "arith": {
            "addf": "add",
            "addi": "add",
            "subf": "subtract",
            "subi": "subtract",
            "mulf": "multiply",
            "muli": "multiply",
            "divf": "divide",
            "divsi": "divide",
            "remf": "remainder",
            "remsi": "remainder",
            "maximumf": "maximum",
            "minimumf": "minimum",
            "andi": "and",
            "ori": "or",
            "xori": "xor",
            "negf": "negate",
            "select": "select",
        },
        "math": {
            "absf": "abs",
            "absi": "abs",
            "exp": "exponential",
            "expm1": "exponential_minus_one",
            "log": "log",
            "log1p": "log_plus_one",
            "sin": "sine",
            "cos": "cosine",
            "tan": "tan",
            "tanh": "tanh",
            "sqrt": "sqrt",
            "rsqrt": "rsqrt",
            "cbrt": "cbrt",
            "floor": "floor",
            "ceil": "ceil",
            "roundeven": "round_nearest_even",
            "round": "round_nearest_afz",
            "powf": "power",
            "atan2": "atan2",
            "isfinite": "is_finite",
            "ctlz": "count_leading_zeros",
            "ctpop": "popcnt",
        },
        "complex": {
            "add": "add",
            "sub": "subtract",
            "mul": "multiply",
            "div": "divide",
            "neg": "negate",
            "exp": "exponential",
            "log": "log",
            "sqrt": "sqrt",
            "tanh": "tanh",
            "abs": "abs",
            "re": "real",
            "im": "imag",
            "create": "complex",
        },
    }.items()
    for name, target in names.items()
}
"""The ops that StableHLO has under another name, or the same."""


def _unsigned(value: ir.Value) -> ir.Value:
    """The same bits as an unsigned integer; a bit is one already."""
    width = value.type.element_type.width
    return value if width == 1 else bitcast(value, ir.IntegerType.get_unsigned(width))


def _on_unsigned(name: str) -> Callable[..., ir.Value]:
    def convert_op(_: ir.Operation, operands: Operands, element: ir.Type) -> ir.Value:
        given = [_unsigned(each) for each in operands]
        return bitcast(stablehlo_op(name, given[0].type, given), element)

    return convert_op


def _signed_order(name: str) -> Callable[..., ir.Value]:
    """A maximum or minimum of signed integers; the larger bit is 0, which is not -1."""

    def convert_op(_: ir.Operation, operands: Operands, element: ir.Type) -> ir.Value:
        if element.width == 1:
            return stablehlo_op(
                {"maximum": "and", "minimum": "or"}[name], operands[0].type, operands
            )
        return stablehlo_op(name, operands[0].type, operands)

    return convert_op


def _converted(_: ir.Operation, operands: Operands, element: ir.Type) -> ir.Value:
    return convert(operands[0], element)


def _from_signed(_: ir.Operation, operands: Operands, element: ir.Type) -> ir.Value:
    """A bit that is set is -1."""
    (value,) = operands
    result = convert(value, element)
    is_bit = str(value.type.element_type) == "i1"
    return stablehlo_op("negate", result.type, [result]) if is_bit else result


def _from_unsigned(_: ir.Operation | None, operands: Operands, element: ir.Type) -> ir.Value:
    value = _unsigned(operands[0])
    if isinstance(element, ir.IntegerType) and element.is_signless and element.width > 1:
        return bitcast(convert(value, ir.IntegerType.get_unsigned(element.width)), element)
    return convert(value, element)


def _to_unsigned(_: ir.Operation, operands: Operands, element: ir.Type) -> ir.Value:
    if element.width == 1:
        return convert(operands[0], element)
    return bitcast(convert(operands[0], ir.IntegerType.get_unsigned(element.width)), element)


def _truncated(_: ir.Operation, operands: Operands, element: ir.Type) -> ir.Value:
    """To a bit: the lowest; StableHLO's conversion asks whether any is set."""
    (value,) = operands
    if element.width == 1:
        value = stablehlo_op("and", value.type, [value, number(1, value.type)])
    return convert(value, element)


def _not(value: ir.Value) -> ir.Value:
    return stablehlo_op("not", value.type, [value])


def _either(a: ir.Value, b: ir.Value) -> ir.Value:
    return stablehlo_op("or", a.type, [a, b])


def _is_nan(value: ir.Value) -> ir.Value:
    return compare("NE", value, value)


def _compared_floats(op: ir.Operation, operands: Operands, _: ir.Type) -> ir.Value:
    """StableHLO's comparisons are false for NaN, but `NE`."""
    a, b = operands
    if (name := _FLOAT_ORDER[op.attributes["predicate"].value]) in ("true", "false"):
        bits = tensor(a.type.shape, integer(1))
        return number(name == "true", bits)
    if name in _ORDERED:
        return compare(_ORDERED[name], a, b)
    if name in _UNORDERED:
        return _not(compare(_UNORDERED[name], a, b))
    unordered = _either(_is_nan(a), _is_nan(b))
    if name in ("ord", "uno"):
        return unordered if name == "uno" else _not(unordered)
    different = _either(compare("LT", a, b), compare("GT", a, b))
    return different if name == "one" else _not(different)


_FLOAT_ORDER = "false oeq ogt oge olt ole one ord ueq ugt uge ult ule une uno true".split()
"""`arith.cmpf`'s predicates by number."""
_ORDERED = {"oeq": "EQ", "ogt": "GT", "oge": "GE", "olt": "LT", "ole": "LE", "une": "NE"}
_UNORDERED = {"ugt": "LE", "uge": "LT", "ult": "GE", "ule": "GT"}
"""Predicates that hold for NaN, with the comparison that holds where they do not."""


def _compared_integers(op: ir.Operation, operands: Operands, _: ir.Type) -> ir.Value:
    name = _INTEGER_ORDER[op.attributes["predicate"].value]
    a, b = operands
    if name in ("eq", "ne"):
        return compare(name.upper(), a, b)
    direction = name[1:].upper()
    if name[0] == "u":
        return compare(direction, _unsigned(a), _unsigned(b))
    if a.type.element_type.width == 1:
        a, b = b, a  # as signed integers, a bit that is set is -1
    return compare(direction, a, b)


_INTEGER_ORDER = "eq ne slt sle sgt sge ult ule ugt uge".split()
"""`arith.cmpi`'s predicates by number."""


def _number_order(name: str) -> Callable[..., ir.Value]:
    """A maximum or minimum that prefers numbers to NaN."""

    def convert_op(_: ir.Operation, operands: Operands, __: ir.Type) -> ir.Value:
        a, b = operands
        joined = stablehlo_op(name, a.type, [a, b])
        return select(_is_nan(a), b, select(_is_nan(b), a, joined))

    return convert_op


def _scaled_log(base: float) -> Callable[..., ir.Value]:
    def convert_op(_: ir.Operation, operands: Operands, __: ir.Type) -> ir.Value:
        (value,) = operands
        natural = stablehlo_op("log", value.type, [value])
        return stablehlo_op("divide", value.type, [natural, number(log(base), value.type)])

    return convert_op


def _power_of_two(_: ir.Operation, operands: Operands, __: ir.Type) -> ir.Value:
    (value,) = operands
    return stablehlo_op("power", value.type, [number(2, value.type), value])


def _integer_power(_: ir.Operation, operands: Operands, element: ir.Type) -> ir.Value:
    value, exponent = operands
    return stablehlo_op("power", value.type, [value, convert(exponent, element)])


def _toward_zero(_: ir.Operation, operands: Operands, __: ir.Type) -> ir.Value:
    (value,) = operands
    is_negative = compare("LT", value, number(0, value.type))
    up, down = (stablehlo_op(name, value.type, [value]) for name in ("ceil", "floor"))
    return select(is_negative, up, down)


def _multiply_add(_: ir.Operation, operands: Operands, __: ir.Type) -> ir.Value:
    a, b, c = operands
    return stablehlo_op("add", a.type, [stablehlo_op("multiply", a.type, [a, b]), c])


def _copied_sign(_: ir.Operation, operands: Operands, element: ir.Type) -> ir.Value:
    magnitude, sign = operands
    bits = integer(element.width)
    is_negative = compare("LT", bitcast(sign, bits), number(0, tensor(sign.type.shape, bits)))
    positive = stablehlo_op("abs", magnitude.type, [magnitude])
    return select(is_negative, stablehlo_op("negate", positive.type, [positive]), positive)


def _is_infinite(_: ir.Operation, operands: Operands, __: ir.Type) -> ir.Value:
    (value,) = operands
    return compare("EQ", stablehlo_op("abs", value.type, [value]), number(float("inf"), value.type))


def _rounded_quotient(rounds_up: bool) -> Callable[..., ir.Value]:
    """A signed division that rounds up, or down, where StableHLO's rounds toward zero."""

    def convert_op(_: ir.Operation, operands: Operands, __: ir.Type) -> ir.Value:
        a, b = operands
        zero = number(0, a.type)
        quotient, rest = (stablehlo_op(name, a.type, [a, b]) for name in ("divide", "remainder"))
        signs = stablehlo_op("xor", a.type, [rest, b])
        direction, step = ("GE", 1) if rounds_up else ("LT", -1)
        inexact = compare("NE", rest, zero)
        moves = stablehlo_op("and", inexact.type, [inexact, compare(direction, signs, zero)])
        moved = stablehlo_op("add", a.type, [quotient, number(step, a.type)])
        return select(moves, moved, quotient)

    return convert_op


def _clamped(_: ir.Operation, operands: Operands, __: ir.Type) -> ir.Value:
    """Where `low` is above `high`, the result is `low`; `stablehlo.clamp` gives `high`."""
    value, low, high = operands
    below = stablehlo_op("minimum", value.type, [value, high])
    return stablehlo_op("maximum", value.type, [below, low])


def _conjugate(_: ir.Operation, operands: Operands, __: ir.Type) -> ir.Value:
    (value,) = operands
    part = tensor(value.type.shape, value.type.element_type.element_type)
    real, imaginary = (stablehlo_op(name, part, [value]) for name in ("real", "imag"))
    return stablehlo_op("complex", value.type, [real, stablehlo_op("negate", part, [imaginary])])


def _complex_equality(direction: str) -> Callable[..., ir.Value]:
    return lambda _, operands, __: compare(direction, *operands)


def _ceil_quotient(_: ir.Operation, operands: Operands, element: ir.Type) -> ir.Value:
    a, b = map(_unsigned, operands)
    quotient, rest = (stablehlo_op(name, a.type, [a, b]) for name in ("divide", "remainder"))
    more = convert(compare("NE", rest, number(0, a.type)), a.type.element_type)
    return bitcast(stablehlo_op("add", a.type, [quotient, more]), element)


def two_results(op: ir.Operation, operands: Operands) -> list[ir.Value]:
    """The results of an op of `TWO_RESULTS` on tensors of one shape."""
    return TWO_RESULTS[op.name](*operands)


def _sum_and_carry(a: ir.Value, b: ir.Value) -> list[ir.Value]:
    total = stablehlo_op("add", a.type, [a, b])
    return [total, compare("LT", _unsigned(total), _unsigned(a))]


def _difference_and_borrow(a: ir.Value, b: ir.Value) -> list[ir.Value]:
    return [stablehlo_op("subtract", a.type, [a, b]), compare("LT", _unsigned(a), _unsigned(b))]


def _halves_of_product(a: ir.Value, b: ir.Value, extend: Callable[..., ir.Value]) -> list[ir.Value]:
    """The low and the high half of a product."""
    element = a.type.element_type
    if element.width not in (8, 16, 32):
        raise ShardError(f"a product of {element} in two halves cannot be written as StableHLO")
    wide = integer(2 * element.width)
    factors = [extend(each, wide) for each in (a, b)]
    product = stablehlo_op("multiply", factors[0].type, factors)
    shifted = [product, number(element.width, product.type)]
    high = stablehlo_op("shift_right_logical", product.type, shifted)
    return [convert(product, element), convert(high, element)]


TWO_RESULTS: dict[str, Callable[..., list[ir.Value]]] = {
    "arith.addui_extended": _sum_and_carry,
    "arith.mulsi_extended": lambda a, b: _halves_of_product(a, b, convert),
    "arith.mului_extended": lambda a, b: _halves_of_product(
        a, b, lambda value, wide: _from_unsigned(None, [value], wide)
    ),
    "arith.subui_extended": _difference_and_borrow,
    "math.sincos": lambda x: [stablehlo_op(name, x.type, [x]) for name in ("sine", "cosine")],
}
"""The elementwise ops with two results."""

_TABLE: dict[str, Callable[[ir.Operation, Operands, ir.Type], ir.Value]] = {
    "arith.bitcast": lambda _, operands, element: bitcast(operands[0], element),
    "arith.ceildivsi": _rounded_quotient(rounds_up=True),
    "arith.ceildivui": _ceil_quotient,
    "arith.cmpf": _compared_floats,
    "arith.cmpi": _compared_integers,
    "arith.divui": _on_unsigned("divide"),
    "arith.extf": _converted,
    "arith.extsi": _from_signed,
    "arith.extui": _from_unsigned,
    "arith.floordivsi": _rounded_quotient(rounds_up=False),
    "arith.fptosi": _converted,
    "arith.fptoui": _to_unsigned,
    "arith.index_cast": _from_signed,
    "arith.index_castui": _from_unsigned,
    "arith.maxnumf": _number_order("maximum"),
    "arith.maxsi": _signed_order("maximum"),
    "arith.maxui": _on_unsigned("maximum"),
    "arith.minnumf": _number_order("minimum"),
    "arith.minsi": _signed_order("minimum"),
    "arith.minui": _on_unsigned("minimum"),
    "arith.remui": _on_unsigned("remainder"),
    "arith.shli": _on_unsigned("shift_left"),
    "arith.shrsi": lambda _, operands, __: stablehlo_op(
        "shift_right_arithmetic", operands[0].type, operands
    ),
    "arith.shrui": _on_unsigned("shift_right_logical"),
    "arith.sitofp": _from_signed,
    "arith.truncf": _converted,
    "arith.trunci": _truncated,
    "arith.uitofp": _from_unsigned,
    "complex.conj": _conjugate,
    "complex.eq": _complex_equality("EQ"),
    "complex.neq": _complex_equality("NE"),
    "math.clampf": _clamped,
    "math.copysign": _copied_sign,
    "math.exp2": _power_of_two,
    "math.fma": _multiply_add,
    "math.fpowi": _integer_power,
    "math.ipowi": lambda _, operands, __: stablehlo_op("power", operands[0].type, operands),
    "math.isinf": _is_infinite,
    "math.isnan": lambda _, operands, __: _is_nan(operands[0]),
    "math.log10": _scaled_log(10),
    "math.log2": _scaled_log(2),
    "math.trunc": _toward_zero,
    **FORMULAS,
}
"""The ops that take more than one op of StableHLO."""
