"""Expand elementary functions, and floats that processors lack, to arithmetic.

LLVM vectorizes arithmetic, unlike calls of libm.

    %y = math.exp %x : f32   ->   n = round(x / ln 2), r = x - n ln 2, y = 2^n (1 + r + r^2 P(r))

Results are within five units in the last place, mostly within two. NaN, infinities, zeros and
denormals are handled as in libm. The polynomials are those of Cephes and, for `erf` of f32, of
least largest error. Errors are as often up as down, so that they do not add up in long chains.
Other functions and types stay as they are; narrower floats have been converted to f32 before.

Narrow floats are expressed by types that every processor supports: LLVM calls functions of a
compiler's runtime library for conversions without an instruction, and for moving bf16 values. Our
code is not linked with such a library.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import factorial, inf, log, sqrt

import ml_dtypes
import numpy as np

from shard_dialect.ir.bindings import ir
from shard_dialect.ir.building import build
from shard_dialect.ir.building.build import replace_op
from shard_dialect.ir.walk import walk


def expand(module: ir.Operation) -> None:
    """Replace the functions in the table by arithmetic."""
    for op in walk(module):
        known = _FUNCTIONS.get(op.name)
        type_ = op.results[0].type if known else None
        if known is None or str(type_) not in known:
            continue
        with ir.InsertionPoint(op), op.location:
            result = known[str(type_)](_Writer(type_), op.operands[0])
        replace_op(op, result)


class _Writer:
    """Creates arithmetic on floats of one type."""

    def __init__(self, type_: ir.Type) -> None:
        self.type = type_
        self.is_double = str(type_) == "f64"
        self.integer = build.integer(64 if self.is_double else 32)
        self._contract = {"fastmath": ir.Attribute.parse("#arith.fastmath<contract>")}

    def number(self, value: float) -> ir.Value:
        return build.number(value, self.type)

    def _value(self, value: ir.Value | float) -> ir.Value:
        return value if isinstance(value, ir.Value) else self.number(value)

    def _binary(self, name: str, a: ir.Value | float, b: ir.Value | float) -> ir.Value:
        # A product and a sum may be fused; no other rounding may change.
        flags = self._contract if name in ("addf", "subf", "mulf") else {}
        operands = [self._value(a), self._value(b)]
        return build.create_value(f"arith.{name}", self.type, operands, flags)

    def add(self, a: ir.Value | float, b: ir.Value | float) -> ir.Value:
        return self._binary("addf", a, b)

    def subtract(self, a: ir.Value | float, b: ir.Value | float) -> ir.Value:
        return self._binary("subf", a, b)

    def multiply(self, a: ir.Value | float, b: ir.Value | float) -> ir.Value:
        return self._binary("mulf", a, b)

    def divide(self, a: ir.Value | float, b: ir.Value | float) -> ir.Value:
        return self._binary("divf", a, b)

    def on_bits(self, name: str, a: ir.Value, b: ir.Value | int) -> ir.Value:
        other = b if isinstance(b, ir.Value) else build.number(b, self.integer)
        return build.arith(name, a, other)

    def bits(self, value: ir.Value) -> ir.Value:
        return build.cast("arith.bitcast", value, self.integer)

    def of_bits(self, value: ir.Value) -> ir.Value:
        return build.cast("arith.bitcast", value, self.type)

    def compare(self, predicate: str, a: ir.Value, b: ir.Value | float) -> ir.Value:
        return build.compare(predicate, a, self._value(b))

    def select(self, condition: ir.Value, a: ir.Value | float, b: ir.Value | float) -> ir.Value:
        return build.select(condition, self._value(a), self._value(b))

    def absolute(self, a: ir.Value) -> ir.Value:
        return build.create_value("math.absf", self.type, [a])

    def with_sign(self, a: ir.Value, sign: ir.Value) -> ir.Value:
        return build.create_value("math.copysign", self.type, [a, sign])

    def polynomial(self, x: ir.Value, coefficients: Sequence[float]) -> ir.Value:
        """By Horner's scheme, the highest coefficient first."""
        value = self.number(coefficients[0])
        for each in coefficients[1:]:
            value = self.add(self.multiply(value, x), each)
        return value

    def clamped(self, x: ir.Value, low: float, high: float) -> ir.Value:
        """Clamp to a range; NaN becomes `low`, so that later integer ops are defined."""
        x = self.select(self.compare("ogt", x, low), x, low)
        return self.select(self.compare("olt", x, high), x, high)

    def nan_kept(self, x: ir.Value, y: ir.Value) -> ir.Value:
        return self.select(self.compare("uno", x, x), x, y)

    def to_integer(self, x: ir.Value) -> ir.Value:
        """Convert to an integer through i32, for which more processors have an instruction."""
        narrow = build.cast("arith.fptosi", x, build.integer(32))
        return build.cast("arith.extsi", narrow, self.integer)

    def power_of_two(self, exponent: ir.Value) -> ir.Value:
        """2 to an integer in the range of a normal float's exponent."""
        bias, width = (1023, 52) if self.is_double else (127, 23)
        biased = self.on_bits("addi", exponent, bias)
        return self.of_bits(self.on_bits("shli", biased, width))


_EXP_32 = (
    1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1,
    5.0000001201e-1,
)  # fmt: skip
_EXP_64 = tuple(1 / factorial(degree) for degree in range(13, 1, -1))
_LN_2 = {
    False: (0.693359375, -2.12194440e-4),
    True: (6.93147180369123816e-1, 1.90821492927058770e-10),
}
_ROUNDS = {False: 1.5 * 2**23, True: 1.5 * 2**52}
"""Adding this number and subtracting it again rounds to an integer."""


def _exp(w: _Writer, x: ir.Value) -> ir.Value:
    low, high = (-746.0, 710.0) if w.is_double else (-104.0, 89.0)
    count, rest = _without_powers(w, w.clamped(x, low, high))
    value = w.add(_exp_minus_one(w, rest), 1.0)
    # In two steps: the exponents of denormals, and on overflow, are out of range for one.
    exponent = w.to_integer(count)
    half = w.on_bits("shrsi", exponent, 1)
    for each in (half, w.on_bits("subi", exponent, half)):
        value = w.multiply(value, w.power_of_two(each))
    return w.nan_kept(x, value)


def _without_powers(w: _Writer, x: ir.Value) -> tuple[ir.Value, ir.Value]:
    """The integer n, and what x has beside n ln 2: half of ln 2 at most."""
    shifted = w.add(w.multiply(x, 1 / log(2)), _ROUNDS[w.is_double])
    count = w.subtract(shifted, _ROUNDS[w.is_double])
    # ln 2 in two parts, of which the first has so few bits that its product with the count is
    # exact.
    for term in _LN_2[w.is_double]:
        x = w.subtract(x, w.multiply(count, term))
    return count, x


def _moderate_expm1(w: _Writer, x: ir.Value) -> ir.Value:
    """e^x - 1 where 2^n is a normal float: what is subtracted is no larger than what is left."""
    count, rest = _without_powers(w, x)
    power = w.power_of_two(w.to_integer(count))
    return w.add(w.multiply(power, _exp_minus_one(w, rest)), w.subtract(power, 1.0))


def _exp_minus_one(w: _Writer, x: ir.Value) -> ir.Value:
    """The polynomial for arguments up to half of ln 2."""
    tail = w.polynomial(x, _EXP_64 if w.is_double else _EXP_32)
    return w.add(w.multiply(tail, w.multiply(x, x)), x)


def _expm1(w: _Writer, x: ir.Value) -> ir.Value:
    is_small = w.compare("olt", w.absolute(x), 0.34)
    # The polynomial gets no argument out of its range, and a zero keeps its sign.
    small_result = w.select(is_small, x, 0.0)
    small_result = w.select(
        w.compare("oeq", small_result, 0.0), small_result, _exp_minus_one(w, small_result)
    )
    return w.select(is_small, small_result, w.subtract(_exp(w, x), 1.0))


_LOG_32 = (
    7.0376836292e-2, -1.1514610310e-1, 1.1676998740e-1, -1.2420140846e-1, 1.4249322787e-1,
    -1.6668057665e-1, 2.0000714765e-1, -2.4999993993e-1, 3.3333331174e-1,
)  # fmt: skip


def _log(w: _Writer, x: ir.Value) -> ir.Value:
    is_denormal = w.compare("olt", x, 2.0**-126)
    scaled = w.select(is_denormal, w.multiply(x, 2.0**23), x)
    bits = w.bits(scaled)
    exponent = w.on_bits("subi", w.on_bits("shrui", bits, 23), 126)
    count = build.cast("arith.sitofp", exponent, w.type)
    count = w.subtract(count, w.select(is_denormal, 23.0, 0.0))
    mantissa = w.of_bits(w.on_bits("ori", w.on_bits("andi", bits, 0x7FFFFF), 0x3F000000))
    # The polynomial is for mantissas around 1, from sqrt(1/2) to sqrt(2).
    is_low = w.compare("olt", mantissa, sqrt(0.5))
    count = w.subtract(count, w.select(is_low, 1.0, 0.0))
    m = w.add(w.subtract(mantissa, 1.0), w.select(is_low, mantissa, 0.0))
    square = w.multiply(m, m)
    y = w.multiply(w.polynomial(m, _LOG_32), w.multiply(m, square))
    high, low = _LN_2[False]
    y = w.add(y, w.multiply(count, low))
    y = w.subtract(y, w.multiply(square, 0.5))
    y = w.add(w.add(m, y), w.multiply(count, high))
    y = w.select(w.compare("oeq", x, inf), x, y)
    y = w.select(w.compare("oeq", x, 0.0), -inf, y)
    y = w.select(w.compare("olt", x, 0.0), float("nan"), y)
    return w.nan_kept(x, y)


def _log1p(w: _Writer, x: ir.Value) -> ir.Value:
    """log(u) for u = 1 + x, plus the error of rounding u."""
    u = w.add(x, 1.0)
    is_usual = w.compare("ogt", u, 0.0)
    divisor = w.select(is_usual, u, 1.0)
    lost = w.divide(w.subtract(x, w.subtract(u, 1.0)), divisor)
    lost = w.select(w.compare("olt", w.absolute(lost), 1.0), lost, 0.0)  # infinities lose nothing
    logarithm = build.create_value("math.log", w.type, [u]) if w.is_double else _log(w, u)
    return w.select(w.compare("oeq", x, 0.0), x, w.add(logarithm, lost))


def _tanh(w: _Writer, x: ir.Value) -> ir.Value:
    size = w.clamped(w.absolute(x), 0.0, 20.0)  # where the function has rounded to 1
    power = _moderate_expm1(w, w.add(size, size))
    y = w.divide(power, w.add(power, 2.0))
    return w.nan_kept(x, w.with_sign(y, x))


_ERF_32 = (
    8.316775436e-5, -8.130012748e-4, 5.199906679e-3, -2.685894152e-2, 1.128368719e-1,
    -3.761263319e-1, 1.283791666e-1,
)  # fmt: skip
_LOG_ERFC_32 = (
    1.938096136e-4, -3.022464885e-3, 2.214471180e-2, -1.037622085e-1, -6.373738553e-1,
    -1.127562705, -2.227904468e-4,
)  # fmt: skip
"""Of log(1 - erf(x)) for x from 0.93 to 4, where 1 - erf(x) rounds to 0 beside 1."""


def _erf(w: _Writer, x: ir.Value) -> ir.Value:
    size = w.clamped(w.absolute(x), 0.0, 4.0)
    small_result = w.multiply(size, w.polynomial(w.multiply(size, size), _ERF_32))
    minus_large = _moderate_expm1(w, w.polynomial(size, _LOG_ERFC_32))
    is_small = w.compare("olt", size, 0.93)
    y = w.select(is_small, w.add(size, small_result), minus_large)
    return w.nan_kept(x, w.with_sign(y, x))


_FUNCTIONS: dict[str, dict[str, Callable[[_Writer, ir.Value], ir.Value]]] = {
    "math.erf": {"f32": _erf},
    "math.exp": {"f32": _exp, "f64": _exp},
    "math.expm1": {"f32": _expm1, "f64": _expm1},
    "math.log": {"f32": _log},
    "math.log1p": {"f32": _log1p, "f64": _log1p},
    "math.tanh": {"f32": _tanh, "f64": _tanh},
}


_NARROW = ("bf16", "f16")


def convert_by_f32(module: ir.Operation) -> None:
    """Convert between f64 and bf16 or f16 through f32, with the same result.

    A number that f32 cannot represent is rounded to odd: to the neighbour whose last bit is 1. That
    bit tells the second rounding on which side of a tie the number was.
    """
    for op in walk(module):
        if op.name not in ("arith.extf", "arith.truncf"):
            continue
        source, target = (str(each.type) for each in (op.operands[0], op.results[0]))
        with ir.InsertionPoint(op), op.location:
            if source == "f64" and target in _NARROW:
                op.operands[0] = to_odd(op.operands[0])
            elif source in _NARROW and target == "f64":
                f32 = ir.F32Type.get()
                op.operands[0] = build.cast("arith.extf", op.operands[0], f32)


def add_products_in_f32(module: ir.Operation) -> None:
    """Compute each `math.fma` of bf16 or f16 in f32, and round: upstream widens all others."""
    for op in walk(module):
        if op.name != "math.fma" or str(op.results[0].type) not in _NARROW:
            continue
        with ir.InsertionPoint(op), op.location:
            f32 = ir.F32Type.get()
            wide = [build.cast("arith.extf", each, f32) for each in op.operands]
            total = build.create_value("math.fma", f32, wide)
            narrow = build.cast("arith.truncf", total, op.results[0].type)
        replace_op(op, narrow)


def to_odd(value: ir.Value) -> ir.Value:
    """A double in f32, rounded to the neighbour whose last bit is 1 where f32 has it not.

    A narrower float is as it was.
    """
    f32, f64, i32 = ir.F32Type.get(), ir.F64Type.get(), build.integer(32)
    if value.type != f64:
        return value
    nearest = build.cast("arith.truncf", value, f32)
    back = build.cast("arith.extf", nearest, f64)
    bits = build.cast("arith.bitcast", nearest, i32)
    sizes = [build.create_value("math.absf", f64, [each]) for each in (value, back)]
    is_farther = build.cast("arith.extui", build.compare("olt", *sizes), i32)
    nearer = build.arith("subi", bits, is_farther)
    is_rounded = build.cast("arith.extui", build.compare("one", back, value), i32)
    return build.cast("arith.bitcast", build.arith("ori", nearer, is_rounded), f32)


def move_as_bits(module: ir.Operation) -> None:
    """In the LLVM dialect, represent bf16 values as 16-bit integers.

    Arithmetic on bf16 was converted to f32 before, so it is only loaded, stored and selected.
    """
    bits = build.integer(16)
    for op in walk(module):
        arguments = [each for region in op.regions for block in region for each in block.arguments]
        for value in (*arguments, *op.results):
            if isinstance(value.type, ir.BF16Type):
                value.set_type(bits)
        if op.name == "llvm.func" and "bf16" in str(op.attributes["function_type"]):
            type_ = str(op.attributes["function_type"]).replace("bf16", "i16")
            op.attributes["function_type"] = ir.Attribute.parse(type_)
        elif op.name == "llvm.mlir.constant" and isinstance(op.attributes["value"], ir.FloatAttr):
            _constant_as_bits(op, bits)
    for op in walk(module):
        if op.name == "llvm.bitcast" and op.operands[0].type == op.results[0].type:
            replace_op(op, op.operands[0])


def _constant_as_bits(op: ir.Operation, bits: ir.Type) -> None:
    value = op.attributes["value"]
    if isinstance(value.type, ir.BF16Type):
        number = np.array(value.value, ml_dtypes.bfloat16).view(np.int16)
        op.attributes["value"] = ir.IntegerAttr.get(bits, int(number))
