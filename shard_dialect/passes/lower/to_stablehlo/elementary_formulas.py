"""Elementary functions that StableHLO has no op for, as formulas of its ops.

math.sinh %x      (e + e / (e + 1)) / 2  for e = exponential_minus_one |x|, with the sign of x
math.erf %x       a series; math.erfc a continued fraction
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import log, pi, sqrt

from shard_dialect.ir.bindings import ir
from shard_dialect.passes.lower.to_stablehlo.stablehlo_builder import (
    compare,
    convert,
    number,
    select,
    stablehlo_op,
)


class _Function:
    """Writes formulas of one value."""

    def __init__(self, value: ir.Value) -> None:
        self.value, self.type = value, value.type

    def __call__(self, name: str, *operands: ir.Value | float) -> ir.Value:
        given = [number(x, self.type) if isinstance(x, (int, float)) else x for x in operands]
        return stablehlo_op(name, self.type, given)

    def cathetus(self) -> ir.Value:
        """sqrt(1 - x^2), exact where x is near 1 or -1."""
        factors = self("subtract", 1, self.value), self("add", 1, self.value)
        return self("sqrt", self("multiply", *factors))

    def odd(self, of_positive: Callable[[ir.Value], ir.Value]) -> ir.Value:
        """A function with f(-x) = -f(x), given it for x >= 0."""
        result = of_positive(self("abs", self.value))
        is_negative = compare("LT", self.value, number(0, self.type))
        return select(is_negative, self("negate", result), result)


def _in_f32(write: Callable[[_Function], ir.Value]) -> Callable[[_Function], ir.Value]:
    """The formula on floats of 32 bits at least, rounded once."""

    def write_wide(f: _Function) -> ir.Value:
        element = f.type.element_type
        wide = element if element.width >= 32 else ir.F32Type.get()
        return convert(write(_Function(convert(f.value, wide))), element)

    return write_wide


def _formula(write: Callable[[_Function], ir.Value]) -> Callable[..., ir.Value]:
    def convert_op(_: ir.Operation, operands: Sequence[ir.Value], __: ir.Type) -> ir.Value:
        return write(_Function(operands[0]))

    return convert_op


def _sinh(f: _Function) -> ir.Value:
    """(e + e / (e + 1)) / 2 for e = exp(x) - 1."""

    def of_positive(x: ir.Value) -> ir.Value:
        e = f("exponential_minus_one", x)
        ratio = f("divide", e, f("add", e, 1))
        # For large x, e is infinite before the result is; half of it is not.
        large = f("exponential", f("subtract", x, log(2)))
        usual = f("multiply", f("add", e, ratio), 0.5)
        return select(compare("GT", x, number(20, f.type)), large, usual)

    return f.odd(of_positive)


def _cosh(f: _Function) -> ir.Value:
    x = f("abs", f.value)
    halves = [f("exponential", f("subtract", each, log(2))) for each in (x, f("negate", x))]
    return f("add", *halves)


def _asinh(f: _Function) -> ir.Value:
    """log1p(x + x^2 / (1 + sqrt(x^2 + 1))); log(x) + log(2) where x^2 may be infinite."""

    def of_positive(x: ir.Value) -> ir.Value:
        square = f("multiply", x, x)
        root = f("sqrt", f("add", square, 1))
        usual = f("log_plus_one", f("add", x, f("divide", square, f("add", root, 1))))
        large = f("add", f("log", x), log(2))
        return select(compare("GT", x, number(_large(f), f.type)), large, usual)

    return f.odd(of_positive)


def _acosh(f: _Function) -> ir.Value:
    x = f.value
    root = f("sqrt", f("multiply", f("subtract", x, 1), f("add", x, 1)))
    usual = f("log_plus_one", f("add", f("subtract", x, 1), root))
    large = f("add", f("log", x), log(2))
    return select(compare("GT", x, number(_large(f), f.type)), large, usual)


def _atanh(f: _Function) -> ir.Value:
    logs = [f("log_plus_one", each) for each in (f.value, f("negate", f.value))]
    return f("multiply", f("subtract", *logs), 0.5)


def _erf(f: _Function) -> ir.Value:
    """2 x / sqrt(pi) * exp(-x^2) * (1 + 2 x^2 / 3 * (1 + 2 x^2 / 5 * (...))).

    All terms are positive. Source: Abramowitz and Stegun, 7.1.6.
    """
    most, terms = (6.0, 130) if _is_f64(f) else (4.0, 50)  # the rest is below a rounding
    x = f("clamp", -most, f.value, most)
    square = f("multiply", x, x)
    series = number(1, f.type)
    for term in range(terms, 0, -1):
        scaled = f("multiply", series, f("multiply", square, 2 / (2 * term + 1)))
        series = f("add", scaled, 1)
    decay = f("exponential", f("negate", square))
    return f("multiply", f("multiply", x, 2 / sqrt(pi)), f("multiply", decay, series))


def _erfc(f: _Function) -> ir.Value:
    """1 - erf(x) up to 1.5; then exp(-x^2) / sqrt(pi) / (x + 1/2 / (x + 2/2 / (x + 3/2 / ...))).

    Source: Abramowitz and Stegun, 7.1.14.
    """
    near = f("subtract", 1, _erf(f))
    x = f("maximum", f.value, 1.5)
    fraction = x
    for level in range(100 if _is_f64(f) else 30, 0, -1):
        fraction = f("add", x, f("divide", level / 2, fraction))
    decay = f("exponential", f("negate", f("multiply", x, x)))
    far = f("divide", f("multiply", decay, 1 / sqrt(pi)), fraction)
    return select(compare("GT", f.value, number(1.5, f.type)), far, near)


def _large(f: _Function) -> float:
    """From here on x^2 + 1 is x^2, but for what rounding takes; the type can hold it."""
    return 1e9 if _is_f64(f) else 1e4


def _is_f64(f: _Function) -> bool:
    return str(f.type.element_type) == "f64"


_FORMULAS: dict[str, Callable[[_Function], ir.Value]] = {
    "math.acos": lambda f: f("atan2", f.cathetus(), f.value),
    "math.acosh": _acosh,
    "math.asin": lambda f: f("atan2", f.value, f.cathetus()),
    "math.asinh": _asinh,
    "math.atan": lambda f: f("atan2", f.value, 1),
    "math.atanh": _atanh,
    "math.cosh": _cosh,
    "math.erf": _in_f32(_erf),
    "math.erfc": _in_f32(_erfc),
    "math.sinh": _sinh,
}

FORMULAS = {name: _formula(write) for name, write in _FORMULAS.items()}
"""For each op, what writes its formula on a tensor."""
