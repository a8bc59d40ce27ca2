"""What ops compute of each element."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from shard_dialect.proof.field import ONE, ZERO, Elements, mixed
from shard_dialect.proof.machine import OPS, Data, Machine, Value, means, wrapped
from shard_dialect.proof.reading import Op, Type, evaluated

_ANY_FLOAT = Type("f32", (), "float", 32)
_SMALL = 1 << 24
"""Elements that stand for integers up to this size are taken for these."""


def _unsigned(numbers: Data, type_: Type) -> Data:
    mask = np.uint64((1 << type_.width) - 1) if type_.width < 64 else ~np.uint64(0)
    return numbers.astype(np.uint64) & mask


def _divided(a: Data, b: Data) -> Data:
    """Division that rounds to zero; -1 by zero."""
    quotient = np.abs(a) // np.where(b == 0, 1, np.abs(b))
    return np.where(b == 0, -1, np.where((a < 0) == (b < 0), quotient, -quotient))


def _remainder(a: Data, b: Data) -> Data:
    return np.where(b == 0, a, a - _divided(a, b) * b)


def _floor_divided(a: Data, b: Data) -> Data:
    return np.where(b == 0, -1, a // np.where(b == 0, 1, b))


def _is_shiftable(b: Data) -> Data:
    """Whether a shift leaves a bit of 64 in place; one below zero is a large one."""
    return (b >= 0) & (b < 64)


def _shifted_left(a: Data, b: Data) -> Data:
    return np.where(_is_shiftable(b), a << np.clip(b, 0, 63), 0)


def _shifted_right(a: Data, b: Data) -> Data:
    return a >> np.where(_is_shiftable(b), b, 63)


INTEGER: Mapping[str, Callable[[Data, Data], Data]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "max": np.maximum,
    "min": np.minimum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "div": _divided,
    "rem": _remainder,
    "floordiv": _floor_divided,
    "ceildiv": lambda a, b: -_floor_divided(-a, b),
    "shl": _shifted_left,
    "shr": _shifted_right,
}
_OF_UNSIGNED: Mapping[str, Callable[[Data, Data], Data]] = {
    "divui": lambda a, b: np.where(b == 0, ~np.uint64(0), a // np.where(b == 0, np.uint64(1), b)),
    "remui": lambda a, b: np.where(b == 0, a, a % np.where(b == 0, np.uint64(1), b)),
    "maxui": np.maximum,
    "minui": np.minimum,
    "shrui": lambda a, b: np.where(b > np.uint64(63), 0, a >> np.minimum(b, np.uint64(63))),
    "ceildivui": lambda a, b: -(-a.astype(np.int64) // np.maximum(b.astype(np.int64), 1)),
}


def combined(m: Machine, kind: str, a: Value, b: Value, type_: Type) -> Value:
    """`a` and `b`, elementwise: `kind` is a key of `INTEGER`."""
    a, b = m.aligned((a, b))
    if type_.is_float or (type_.is_bit and (a.is_symbolic or b.is_symbolic)):
        x, y = m.elements(a), m.elements(b)
        function = _floats(m, kind) if type_.is_float else _bits(m, kind)
        is_exponent = m.splits_exponents and kind == "sub"
        result = function(x, y)
        if type_.is_float and kind in ("sub", "div"):
            result = m.cancellation.of(m.field, result, x, y)
        return Value(result, True, (x, y) if is_exponent else None)
    x, y = m.integers(a), m.integers(b)
    if _is_wide_unsigned(type_) and kind in ("max", "min"):
        return _of_unsigned(m, f"{kind}ui", (a, b), type_)
    if type_.is_bit:
        kind = {"add": "xor", "mul": "and", "max": "or", "min": "and"}.get(kind, kind)
    return Value(wrapped(INTEGER[kind](x, y), type_), False)


def _is_wide_unsigned(type_: Type) -> bool:
    """Whether the larger half of its integers are held as ones below zero."""
    return type_.kind == "unsigned" and type_.width == 64


def _floats(m: Machine, kind: str) -> Callable[[Elements, Elements], Elements]:
    if m.is_ordered and kind in ("max", "min"):
        return partial(_first_in_order, m, kind)
    functions: Mapping[str, Callable[[Elements, Elements], Elements]] = {
        "add": m.field.add,
        "sub": m.field.sub,
        "mul": m.field.mul,
        "div": m.field.div,
        "max": m.field.max,
        "min": m.field.min,
    }
    return functions.get(kind) or (lambda a, b: m.field.drawn(m.field.key("float", kind), a, b))


def _first_in_order(m: Machine, kind: str, a: Elements, b: Elements) -> Elements:
    if m.field.joins:
        return m.field.join(np.stack(np.broadcast_arrays(a, b)), 0)
    x, y = m.ranks(a), m.ranks(b)
    return np.where(x >= y if kind == "max" else x <= y, a, b)


def _first_along(m: Machine, kind: str, data: Elements, axes: tuple[int, ...]) -> Elements:
    """The maximum or minimum along axes, in the order of numbers."""
    kept = [axis for axis in range(data.ndim) if axis not in axes]
    shape = [data.shape[axis] for axis in kept]
    flat = data.transpose(*kept, *axes).reshape(*shape, -1)
    if flat.shape[-1] == 0:
        return np.full(shape, identity(m, kind, _ANY_FLOAT).data.reshape(-1)[0])
    if m.field.joins:
        return m.field.join(flat, -1)
    ranks = m.ranks(flat)
    best = (np.argmax if kind == "max" else np.argmin)(ranks, axis=-1)
    return np.take_along_axis(flat, best[..., None], -1)[..., 0]


def _bits(m: Machine, kind: str) -> Callable[[Elements, Elements], Elements]:
    """Of bits that are polynomials."""
    f = m.field

    def either(a: Elements, b: Elements) -> Elements:
        return f.sub(f.add(a, b), f.mul(a, b))

    def one(a: Elements, b: Elements) -> Elements:
        both = f.mul(a, b)
        return f.sub(f.add(a, b), f.add(both, both))

    table = {"and": f.mul, "mul": f.mul, "min": f.mul, "or": either, "max": either}
    return table.get(kind) or one


def reduced(m: Machine, kind: str, value: Value, type_: Type, dims: Sequence[int]) -> Value:
    """A value, reduced along dimensions of its array by `add`, `mul`, `max`, `min` or bitwise."""
    axes = tuple(dims)
    if not axes:
        return value
    if value.is_symbolic:
        return Value(_reduced_elements(m, kind, value.data, type_, axes), True)
    if type_.is_bit:
        kind = {"add": "xor", "mul": "and", "max": "or", "min": "and"}.get(kind, kind)
    function: Any = INTEGER[kind]
    numbers = value.data
    if kind in ("max", "min") and 0 in (numbers.shape[axis] for axis in axes):
        initial = identity(m, kind, type_).data.reshape(-1)[0]
        return Value(function.reduce(numbers, axes, initial=initial), False)
    if _is_wide_unsigned(type_) and kind in ("max", "min"):
        most = function.reduce(numbers.astype(np.uint64), axis=axes)
        return Value(most.astype(np.int64), False)
    return Value(wrapped(function.reduce(numbers, axis=axes, dtype=np.int64), type_), False)


def _reduced_elements(
    m: Machine, kind: str, data: Elements, type_: Type, axes: tuple[int, ...]
) -> Elements:
    f = m.field
    if type_.is_float and kind == "add":
        return f.sum(data, axes)
    if type_.is_float and kind in ("max", "min") and m.is_ordered:
        return _first_along(m, kind, data, axes)
    into, back = _REDUCED[kind if type_.is_float else _OF_BITS[kind]](m)
    data = into(data)
    for axis in sorted(axes, reverse=True):
        data = f.product(data, axis)
    return back(data)


_OF_BITS = {
    "add": "xor",
    "mul": "mul",
    "and": "mul",
    "min": "mul",
    "or": "or",
    "max": "or",
    "xor": "xor",
}


def _as_xor(m: Machine) -> tuple[Callable[..., Elements], Callable[..., Elements]]:
    f = m.field
    half = np.array((f.prime + 1) // 2, np.uint64)

    def sign(a: Elements) -> Elements:
        return f.sub(ONE, f.add(a, a))

    return sign, lambda a: f.mul(half, f.sub(ONE, a))


_REDUCED: Mapping[
    str, Callable[[Machine], tuple[Callable[..., Elements], Callable[..., Elements]]]
] = {
    "mul": lambda m: (lambda a: a, lambda a: a),
    "max": lambda m: (m.field.disguised, m.field.undisguised),
    "min": lambda m: (
        lambda a: m.field.disguised(m.field.neg(a)),
        lambda a: m.field.neg(m.field.undisguised(a)),
    ),
    "or": lambda m: (
        lambda a: m.field.sub(ONE, a),
        lambda a: m.field.sub(ONE, a),
    ),
    "xor": _as_xor,
}


def identity(m: Machine, kind: str, type_: Type) -> Value:
    """What changes nothing in a reduction, as a scalar."""
    if type_.is_float:
        infinity = m.field.infinity
        number = {"add": 0, "mul": 1, "max": m.field.prime - infinity, "min": infinity}[kind]
        return Value(m.scalar(np.array(number, np.uint64)), True)
    bound = 1 << (type_.width - 1)
    low, high = (
        (0, 2 * bound - 1) if type_.kind == "unsigned" or type_.is_bit else (-bound, bound - 1)
    )
    if _is_wide_unsigned(type_):
        high = -1
    ones = 1 if type_.is_bit else -1
    integer = {"add": 0, "mul": 1, "max": low, "min": high, "and": ones, "or": 0, "xor": 0}[kind]
    return Value(m.scalar(wrapped(np.array(integer), type_)), False)


COMBINERS = {
    **{f"arith.{name}": kind for name, kind in (
        ("addf", "add"), ("addi", "add"), ("mulf", "mul"), ("muli", "mul"), ("maximumf", "max"),
        ("maxnumf", "max"), ("maxsi", "max"), ("minimumf", "min"), ("minnumf", "min"),
        ("minsi", "min"), ("andi", "and"), ("ori", "or"), ("xori", "xor"),
    )},
    **{f"stablehlo.{name}": kind for name, kind in (
        ("add", "add"), ("multiply", "mul"), ("maximum", "max"), ("minimum", "min"),
        ("and", "and"), ("or", "or"), ("xor", "xor"),
    )},
}  # fmt: skip
"""Ops that are commutative and associative, and what they do."""
_SUMS_OF_BITS = {
    "stablehlo": {"add": "or"},
    "arith": {"max": "and", "min": "or"},  # a true bit is -1
}
"""What these do to bits, by dialect, where it is not what they do to numbers modulo 2."""


def combining(op: Op) -> str | None:
    """How an op combines its operands, as `combined` names it, if it is a combiner."""
    kind = COMBINERS.get(op.name)
    if kind is None or not op.type.is_bit:
        return kind
    return _SUMS_OF_BITS.get(op.name.partition(".")[0], {}).get(kind, kind)


_BINARY = {
    **COMBINERS,
    **{f"arith.{name}": kind for name, kind in (
        ("subf", "sub"), ("subi", "sub"), ("divf", "div"), ("divsi", "div"), ("remsi", "rem"),
        ("remf", "rem"), ("floordivsi", "floordiv"), ("ceildivsi", "ceildiv"), ("shli", "shl"),
        ("shrsi", "shr"),
    )},
    **{f"stablehlo.{name}": kind for name, kind in (
        ("subtract", "sub"), ("divide", "div"), ("remainder", "rem"), ("shift_left", "shl"),
        ("shift_right_arithmetic", "shr"),
    )},
    **{f"tosa.{name}": kind for name, kind in (
        ("add", "add"), ("sub", "sub"), ("maximum", "max"), ("minimum", "min"),
        ("intdiv", "div"), ("bitwise_and", "and"), ("bitwise_or", "or"), ("bitwise_xor", "xor"),
        ("logical_and", "and"), ("logical_or", "or"), ("logical_xor", "xor"),
        ("logical_left_shift", "shl"),
    )},
}  # fmt: skip


@means(*_BINARY)
def _binary(m: Machine, op: Op, values: Sequence[Value]) -> Value:
    kind = combining(op) or _BINARY[op.name]
    if op.type.kind == "unsigned" and kind in ("div", "rem", "max", "min", "shr"):
        return _of_unsigned(m, f"{kind}ui", values, op.type)
    return combined(m, kind, values[0], values[1], op.type)


_OF_UNSIGNED_NAMES = {
    **{f"arith.{name}": name for name in _OF_UNSIGNED},
    "stablehlo.shift_right_logical": "shrui",
    "tosa.logical_right_shift": "shrui",
}


@means(*_OF_UNSIGNED_NAMES)
def _unsigned_binary(m: Machine, op: Op, values: Sequence[Value]) -> Value:
    return _of_unsigned(m, _OF_UNSIGNED_NAMES[op.name], values, op.type)


def _of_unsigned(m: Machine, kind: str, values: Sequence[Value], type_: Type) -> Value:
    a, b = (_unsigned(m.integers(each), type_) for each in m.aligned(values))
    return Value(wrapped(_OF_UNSIGNED[kind](a, b).astype(np.int64), type_), False)


@means("arith.negf", "stablehlo.negate", "tosa.negate", "math.absi", "stablehlo.abs", "tosa.abs",
       "stablehlo.not", "tosa.logical_not", "tosa.bitwise_not", "stablehlo.sign")  # fmt: skip
def _unary(m: Machine, op: Op, values: Sequence[Value]) -> Value:
    value, name, type_ = values[0], op.name.partition(".")[2], op.type
    if name in ("negf", "negate") and type_.is_float:
        return Value(m.field.neg(m.elements(value)), True)
    if type_.is_float:
        return _drawn(m, op, values)
    if name in ("not", "logical_not") and type_.is_bit and value.is_symbolic:
        return Value(m.field.sub(ONE, value.data), True)
    if op.name == "tosa.negate" and len(values) == 3:
        return _negated_around(m, values, type_)
    functions: Mapping[str, Callable[[Data], Data]] = {
        "negate": np.negative,
        "absi": np.abs,
        "abs": np.abs,
        "sign": np.sign,
    }
    function: Callable[[Data], Data] = functions.get(name, np.invert)
    return Value(wrapped(function(m.integers(value)), type_), False)


def _negated_around(m: Machine, values: Sequence[Value], type_: Type) -> Value:
    """Minus what integers are above a zero point, plus another one, within the type's ends."""
    number = m.integers(values[0])
    ones = [1] * (number.ndim - m.axes)
    points = [m.integers(m.shaped(each, ones)) for each in values[1:]]
    if not any(np.any(each) for each in points):
        return Value(wrapped(-number, type_), False)
    bound = 1 << (type_.width - 1)
    return Value(np.clip(points[0] - number + points[1], -bound, bound - 1), False)


@means("tosa.mul")
def _multiply(m: Machine, op: Op, values: Sequence[Value]) -> Value:
    """Integers may be shifted to the right after that, and are rounded."""
    if len(values) < 3 or op.type.is_float:
        return combined(m, "mul", values[0], values[1], op.type)
    a, b = (m.integers(each) for each in m.aligned(values[:2]))
    shift = m.integers(m.shaped(values[2], [1] * (a.ndim - m.axes)))
    half = np.where(shift > 0, 1 << np.maximum(shift - 1, 0), 0)
    return Value(wrapped(_shifted_right(a * b + half, shift), op.type), False)


@means("math.fma")
def _fused(m: Machine, op: Op, values: Sequence[Value]) -> Value:
    product = combined(m, "mul", values[0], values[1], op.type)
    return combined(m, "add", product, values[2], op.type)


@means("math.powf", "stablehlo.power", "tosa.pow")
def _power(m: Machine, op: Op, values: Sequence[Value]) -> Value:
    base, exponent = m.aligned(values)
    if not op.type.is_float:
        return _integer_power(m, op, base, exponent)
    return _drawn(m, op, (base, exponent))


def _integer_power(m: Machine, op: Op, base: Value, exponent: Value) -> Value:
    """With an exponent below zero it is 0, but of 1 and -1."""
    a, b = m.integers(base), m.integers(exponent)
    result = np.power(a, np.where(np.abs(a) == 1, b & 1, np.maximum(b, 0)))
    is_fraction = (b < 0) & (np.abs(a) != 1) & (op.type.kind != "unsigned")
    return Value(wrapped(np.where(is_fraction, 0, result), op.type), False)


OPS["math.ipowi"] = _power


@means("arith.addui_extended", "arith.subui_extended", "arith.mulsi_extended",
       "arith.mului_extended")  # fmt: skip
def _extended(m: Machine, op: Op, values: Sequence[Value]) -> Sequence[Value]:
    """Two results: the low bits, and the carry, the borrow or the high bits."""
    name, type_ = op.name.removeprefix("arith.").removesuffix("_extended"), op.types[0]
    low = combined(m, {"a": "add", "s": "sub", "m": "mul"}[name[0]], values[0], values[1], type_)
    a, b = (m.integers(each) for each in m.aligned(values))
    if name.endswith("ui"):
        a, b = _unsigned(a, type_), _unsigned(b, type_)
    if name == "subui":
        high = a < b
    elif name == "addui":
        high = _unsigned(m.integers(low), type_) < a
    else:
        width = type_.width if type_.kind != "index" else 64
        high = wrapped((a.astype(object) * b.astype(object) >> width) & ((1 << width) - 1), type_)
    return [low, Value(high.astype(np.int64), False)]


@means("math.clampf")
def _clamp_floats(m: Machine, op: Op, values: Sequence[Value]) -> Value:
    value, low, high = values  # where low is above high, it is low
    return combined(m, "max", combined(m, "min", value, high, op.type), low, op.type)


@means("math.sincos")
def _sine_and_cosine(m: Machine, op: Op, values: Sequence[Value]) -> Sequence[Value]:
    (angle,) = (m.elements(each) for each in values)
    return [
        Value(m.field.drawn(m.field.key("function", name), angle), True) for name in ("sin", "cos")
    ]


_COUNTED = {
    **dict.fromkeys(("math.ctpop", "stablehlo.popcnt"), "ones"),
    **dict.fromkeys(("math.ctlz", "stablehlo.count_leading_zeros", "tosa.clz"), "leading"),
    "math.cttz": "trailing",
}
"""What of an integer's bits is counted."""


@means(*_COUNTED)
def _count_bits(m: Machine, op: Op, values: Sequence[Value]) -> Value:
    bits, width = _unsigned(m.integers(values[0]), op.type), op.type.width or 64
    shifted = [bits >> np.uint64(place) for place in range(width)]
    kind = _COUNTED[op.name]
    if kind == "ones":
        count = sum(each & np.uint64(1) for each in shifted)
    elif kind == "leading":
        count = sum((each == 0).astype(np.uint64) for each in shifted)
    else:
        low = [bits & np.uint64((1 << place + 1) - 1) for place in range(width)]
        count = sum((each == 0).astype(np.uint64) for each in low)
    return Value(wrapped(np.asarray(count).astype(np.int64), op.type), False)


@means("arith.select", "stablehlo.select", "tosa.select")
def _select(m: Machine, op: Op, values: Sequence[Value]) -> Value:
    return selected(m, values, op.type)


def selected(m: Machine, values: Sequence[Value], type_: Type) -> Value:
    """Elements of the second value where the first is 1, else of the third."""
    which, yes, no = m.aligned(values)
    symbolic = yes.is_symbolic or no.is_symbolic
    if which.is_symbolic and not (type_.is_float or type_.is_bit):
        which = Value(m.integers(which), False)
    if which.is_symbolic:
        x, y = m.elements(yes), m.elements(no)
        f = m.field
        return Value(f.add(y, f.mul(which.data, f.sub(x, y))), True)
    if symbolic:
        return Value(np.where(which.data != 0, m.elements(yes), m.elements(no)), True)
    return Value(np.where(which.data != 0, yes.data, no.data), False)


@means("stablehlo.clamp", "tosa.clamp")
def _clamp(m: Machine, op: Op, values: Sequence[Value]) -> Value:
    if len(values) < 3:
        return _drawn(m, op, values)
    low, value, high = values
    least = combined(m, "max", value, low, op.type)
    return combined(m, "min", least, high, op.type)


_DIRECTIONS = ("EQ", "NE", "LT", "LE", "GT", "GE")
_OF_FLOATS = ("", "EQ", "GT", "GE", "LT", "LE", "NE", "", "EQ", "GT", "GE", "LT", "LE", "NE")
"""By the number of a predicate of `arith.cmpf`; ordered or not are the same without NaN."""


@means("stablehlo.compare", "arith.cmpi", "arith.cmpf", "tosa.equal", "tosa.greater",
       "tosa.greater_equal")  # fmt: skip
def _compare(m: Machine, op: Op, values: Sequence[Value]) -> Value:
    direction, unsigned = _direction(op)
    a, b = m.aligned(values)
    type_ = op.operand_types[0]
    if not direction:
        return _drawn(m, op, (a, b))
    if type_.is_bit and op.name.startswith("arith.") and not unsigned:
        a, b = b, a  # a true bit is -1
    if type_.is_bit and (a.is_symbolic or b.is_symbolic):
        return _compared_bits(m, direction, m.elements(a), m.elements(b))
    if type_.is_float or a.is_symbolic or b.is_symbolic:
        return compared(m, direction, m.elements(a), m.elements(b))
    x, y = a.data, b.data
    if unsigned or type_.kind == "unsigned":
        x, y = _unsigned(x, type_), _unsigned(y, type_)
    return Value(_NUMBERS[direction](x, y).astype(np.int64), False)


def _compared_bits(m: Machine, direction: str, a: Elements, b: Elements) -> Value:
    if direction in ("GT", "LE"):
        a, b = b, a
    differs = direction in ("EQ", "NE")
    bits = _bits(m, "xor")(a, b) if differs else m.field.mul(m.field.sub(ONE, a), b)
    negated = direction in ("EQ", "LE", "GE")
    return Value(m.field.sub(ONE, bits) if negated else bits, True)


_NUMBERS: Mapping[str, Callable[[Data, Data], Data]] = {
    "EQ": np.equal,
    "NE": np.not_equal,
    "LT": np.less,
    "LE": np.less_equal,
    "GT": np.greater,
    "GE": np.greater_equal,
}


def _direction(op: Op) -> tuple[str, bool]:
    """The direction of a comparison, `` if it is none of the six; whether it is unsigned."""
    if op.name == "stablehlo.compare":
        text = str(op.attributes["comparison_direction"])
        is_unsigned = "UNSIGNED" in str(op.attributes.get("compare_type", ""))
        return next(each for each in _DIRECTIONS if f" {each}" in text), is_unsigned
    if op.name.startswith("tosa."):
        return {"equal": "EQ", "greater": "GT", "greater_equal": "GE"}[op.name[5:]], False
    number = op.attributes["predicate"]
    if op.name == "arith.cmpf":
        return _OF_FLOATS[number] if number < len(_OF_FLOATS) else "", False
    return _DIRECTIONS[number if number < 6 else number - 4], number >= 6


def compared(m: Machine, direction: str, a: Elements, b: Elements) -> Value:
    """How elements compare: as numbers where order counts, else as bits drawn for each pair."""
    if m.is_ordered:
        x, y = m.ranks(a), m.ranks(b)
        return Value(_NUMBERS[direction](x, y).astype(np.int64), False)
    if direction in ("GT", "LE"):
        a, b = b, a
    if direction in ("EQ", "NE"):
        drawn = m.field.drawn(m.field.key("EQ"), np.minimum(a, b), np.maximum(a, b))
        bits = np.where(a == b, np.uint64(1), drawn)
    else:
        bits = np.where(a == b, np.uint64(0), m.field.drawn(m.field.key("LT"), a, b))
    negated = direction in ("NE", "LE", "GE")
    return Value(m.field.sub(ONE, bits) if negated else bits, True)


@means("stablehlo.convert", "arith.extf", "arith.truncf", "arith.extsi", "arith.extui",
       "arith.trunci", "arith.sitofp", "arith.uitofp", "arith.fptosi", "arith.fptoui",
       "arith.index_cast", "arith.index_castui", "tosa.cast", "arith.convertf")  # fmt: skip
def _convert(m: Machine, op: Op, values: Sequence[Value]) -> Value:
    given, wanted = op.operand_types[0], op.type
    value = values[0]
    if given.kind == "complex" and wanted.kind == "float":
        return _part_of(m, replace(op, name="stablehlo.real", attributes={}), values)
    if wanted.is_float:
        return Value(_as_floats(m, op, value), True)
    to_bit = wanted.is_bit and op.name in ("stablehlo.convert", "tosa.cast")
    if given.is_float:
        if to_bit:
            return compared(m, "NE", m.elements(value), ZERO)
        rounding = "nearest" if op.name == "tosa.cast" else "to zero"
        return Value(wrapped(_rounded(m, m.elements(value), wanted, rounding), wanted), False)
    if to_bit:
        return value if value.is_symbolic else Value((value.data != 0).astype(np.int64), False)
    is_negative = given.is_bit and op.name in ("arith.extsi", "arith.index_cast")
    if value.is_symbolic and not is_negative:
        return Value(lambda: m.integers(value), False, bit=value.data)
    numbers = m.integers(value)
    if op.name in ("arith.extui", "arith.index_castui"):
        numbers = _unsigned(numbers, given).astype(np.int64)
    elif is_negative:
        numbers = -numbers
    return Value(wrapped(numbers, wanted), False)


def _as_floats(m: Machine, op: Op, value: Value) -> Elements:
    given = op.operand_types[0]
    is_unsigned = op.name == "arith.uitofp" or given.kind == "unsigned"
    if is_unsigned and not value.is_symbolic:
        return m.field.of_integers(_unsigned(value.data, given))
    numbers = m.elements(value)
    return m.field.neg(numbers) if given.is_bit and op.name == "arith.sitofp" else numbers


def _rounded(m: Machine, elements: Elements, type_: Type, rounding: str) -> Data:
    """Floats as integers: small integers are themselves, of others nothing is known."""
    number = elements.astype(np.int64)
    number = np.where(number > m.field.prime - _SMALL, number - m.field.prime, number)
    if not np.any(number >= _SMALL):
        return number
    drawn = m.field.drawn(m.field.key("integer", rounding, type_.kind, type_.width), elements)
    return np.where(number < _SMALL, number, m.as_integers(drawn, type_, 16))


@means("stablehlo.complex", "complex.create")
def _complex(m: Machine, op: Op, values: Sequence[Value]) -> Value:
    real, imaginary = (m.elements(each) for each in m.aligned(values))
    return Value(m.field.complex(real, imaginary), True)


@means("complex.constant")
def _complex_constant(m: Machine, op: Op, values: Sequence[Value]) -> Value:
    parts = (m.field.of_floats(np.array(each), np.inf) for each in op.attributes["value"])
    return Value(m.scalar(m.field.complex(*parts)), True)


@means("stablehlo.real", "stablehlo.imag", "complex.re", "complex.im", "chlo.conj")
def _part(m: Machine, op: Op, values: Sequence[Value]) -> Value:
    return _part_of(m, op, values)


def _part_of(m: Machine, op: Op, values: Sequence[Value]) -> Value:
    """Of a sum this is the sum of the parts, which a function that is drawn is not."""
    if op.operand_types[0].kind != "complex":
        return values[0] if "im" not in op.name else Value(values[0].data * np.uint64(0), True)
    number = m.elements(values[0])
    called = mixed(m.field.key("call", op.function), number)
    return m.of_box(op, _drawn(m, op, values), called)


@means("stablehlo.rsqrt", "math.rsqrt", "tosa.rsqrt")
def _reciprocal_root(m: Machine, op: Op, values: Sequence[Value]) -> Value:
    """What gives 1 with the root."""
    root = _drawn(m, replace(op, name=f"{op.name.partition('.')[0]}.sqrt"), values)
    return combined(m, "div", Value(m.scalar(ONE), True), root, op.type)


@means("tosa.reciprocal")
def _reciprocal(m: Machine, op: Op, values: Sequence[Value]) -> Value:
    return combined(m, "div", Value(m.scalar(ONE), True), values[0], op.type)


@means("stablehlo.logistic", "tosa.sigmoid")
def _logistic(m: Machine, op: Op, values: Sequence[Value]) -> Value:
    """1 / (1 + exp(-x))."""
    name = "stablehlo.exponential" if op.name == "stablehlo.logistic" else "tosa.exp"
    negated = Value(m.field.neg(m.elements(values[0])), True)
    power = _exponential(m, replace(op, name=name), [negated])
    assert isinstance(power, Value), "it has one result"
    one = Value(m.scalar(ONE), True)
    return combined(m, "div", one, combined(m, "add", one, power, op.type), op.type)


@means("stablehlo.exponential", "math.exp", "tosa.exp")
def _exponential(m: Machine, op: Op, values: Sequence[Value]) -> Value:
    """A function that is drawn; of a difference, the quotient of its values, as softmax uses it."""
    exponent = values[0]
    if not op.type.is_float or not m.splits_exponents:
        return _drawn(m, op, values)
    if exponent.difference is None:
        return Value(_of_exponent(m, exponent.data), True)
    a, b = (_of_exponent(m, each) for each in exponent.difference)
    return Value(m.field.div(a, b), True)


def _of_exponent(m: Machine, exponent: Elements) -> Elements:
    """0 for minus infinity, 1 for 0."""
    drawn = m.field.drawn(m.field.key("exp"), exponent)
    drawn = np.where(exponent == m.field.prime - m.field.infinity, ZERO, drawn)
    return np.where(exponent == 0, ONE, drawn)


@means("affine.apply", "affine.min", "affine.max")
def _affine(m: Machine, op: Op, values: Sequence[Value]) -> Value:
    map_ = op.attributes["map"]
    numbers = [m.integers(each) for each in m.aligned(values)]
    dims, symbols = numbers[: map_.loops], numbers[map_.loops :]
    found = [evaluated(each, dims, symbols) for each in map_.results]
    total = functools.reduce(np.maximum if op.name.endswith("max") else np.minimum, found)
    return Value(np.zeros((1,) * m.axes, np.int64) + total, False)


@means("stablehlo.map")
def _map(m: Machine, op: Op, values: Sequence[Value]) -> Value:
    (made,) = m.run(op.body, {}, values)
    shape = op.type.shape
    if made.data.ndim == m.axes:  # a body that reads no argument makes one number
        wide = made.data.reshape(*made.data.shape, *(1,) * len(shape))
        return Value(np.broadcast_to(wide, (*made.data.shape, *shape)), made.is_symbolic)
    return made


def _drawn(m: Machine, op: Op, values: Sequence[Value]) -> Value:
    """A function of which nothing is known but that it is one, elementwise."""
    key = m.field.key("function", op.function)
    arguments = [m.elements(each) for each in m.aligned(values)]
    drawn = m.field.drawn(key, *arguments)
    if op.type.is_float or op.type.is_bit:
        return Value(drawn, True)
    return Value(m.as_integers(drawn, op.type, 16), False)


_DRAWN = """
stablehlo: atan2 cbrt ceil cosine exponential_minus_one floor is_finite log
    log_plus_one reduce_precision round_nearest_afz
    round_nearest_even sine sqrt tan tanh
tosa: ceil cos erf floor log sin tanh arithmetic_right_shift
arith: bitcast scaling_extf scaling_truncf
math: absf acos acosh asin asinh atan atan2 atanh cbrt ceil copysign cos cosh erf
    erfc exp2 expm1 floor fpowi isfinite isinf isnan isnormal log log10 log1p log2 round
    roundeven sin sinh sqrt tan tanh trunc
chlo: acos acosh asin asinh atan atanh bessel_i1e cosh digamma erf erf_inv erfc is_inf
    is_neg_inf is_pos_inf lgamma next_after polygamma sinh square tan zeta
"""
for _line in _DRAWN.replace("\n    ", " ").strip().splitlines():
    _dialect, _, _names = _line.partition(": ")
    OPS.update({f"{_dialect}.{name}": _drawn for name in _names.split()})

ELEMENTWISE = frozenset(name for name, meaning in OPS.items() if meaning.__module__ == __name__)
"""Ops that treat all elements alike."""
