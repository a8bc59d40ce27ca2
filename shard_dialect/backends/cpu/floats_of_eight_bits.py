"""Compute with floats of eight bits, which LLVM has not, in f32.

    %r = arith.addf %a, %b : f8E4M3FN

becomes, the conversions written out on bits,

    %x = arith.extf %a : f8E4M3FN to f32
    %y = arith.extf %b : f8E4M3FN to f32
    %s = arith.addf %x, %y : f32
    %r = arith.truncf %s : f32 to f8E4M3FN

A sum, product, quotient or root of such numbers that is rounded to f32 and then to eight bits is
the one that is rounded once, as f32 has more than twice as many bits (Figueroa, 1995). Conversions
are those of ml_dtypes and XLA: to the nearest, ties to even; what is too large becomes infinite, or
NaN in a format without infinities.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import ml_dtypes
import numpy as np

from shard_dialect.abi.tensor_types import dtype_of
from shard_dialect.backends.cpu.elementary_functions import to_odd
from shard_dialect.ir.bindings import ir
from shard_dialect.ir.building import build
from shard_dialect.ir.building.build import replace_op, select
from shard_dialect.ir.walk import walk

_SCALE = "f8E8M0FNU"
"""Powers of two from 2^-127 on, and NaN."""
_MANTISSA, _BIAS, _SIGN, _INFINITY, _NAN = 23, 127, 1 << 31, 0x7F800000, 0x7FC00000
"""Of f32."""
_COMPUTED = ("arith.", "math.")
_MOVED = ("arith.select", "arith.constant", "arith.bitcast")


@dataclass(frozen=True)
class _Format:
    """A format with a sign; codes are without it."""

    mantissa: int
    bias: int
    largest: int
    """The code of the largest number."""
    overflow: int
    """The code of what is larger: infinity, or NaN in a format without."""
    nan: int
    has_infinity: bool
    has_one_zero: bool
    """Whether a sign and zeros are NaN, instead of -0.0."""


@cache
def _format(name: str) -> _Format:
    dtype = dtype_of(ir.Type.parse(name))
    info = ml_dtypes.finfo(dtype)
    values = np.arange(128, dtype=np.uint8).view(dtype).astype(np.float32)
    overflow = int(np.array(np.inf, np.float32).astype(dtype).view(np.uint8))
    nan = int(np.array(np.nan, np.float32).astype(dtype).view(np.uint8))
    largest = int(np.flatnonzero(np.isfinite(values))[-1])
    has_infinity = bool(np.isinf(values).any())
    return _Format(
        info.nmant, 1 - int(info.minexp), largest, overflow, nan, has_infinity, nan == 128
    )


def compute_in_f32(module: ir.Operation) -> None:
    """Rewrite arithmetic on scalars of eight bits; what only moves them stays."""
    for op in walk(module):
        if not op.name.startswith(_COMPUTED) or op.name in _MOVED:
            continue
        narrow = [_is_narrow(each.type) for each in (*op.operands, *op.results)]
        if any(narrow):
            with ir.InsertionPoint(op), op.location:
                _rewrite(op)


def _is_narrow(type_: ir.Type) -> bool:
    return isinstance(type_, ir.FloatType) and type_.width == 8


def _rewrite(op: ir.Operation) -> None:
    f32 = ir.F32Type.get()
    operands = [_decoded(each) if _is_narrow(each.type) else each for each in op.operands]
    (result,) = op.results
    if op.name in ("arith.extf", "arith.truncf"):
        made = _between_floats(operands[0], f32 if _is_narrow(result.type) else result.type)
    else:
        attributes = {name: op.attributes[name] for name in op.attributes}
        type_ = f32 if _is_narrow(result.type) else result.type
        made = build.create_value(op.name, type_, operands, attributes)
    if _is_narrow(result.type):
        made = _encoded(made, result.type)
    replace_op(op, made)


def _between_floats(value: ir.Value, type_: ir.FloatType) -> ir.Value:
    if value.type.width > type_.width:
        return build.cast("arith.truncf", to_odd(value), type_)
    return build.cast("arith.extf", value, type_)


def _decoded(value: ir.Value) -> ir.Value:
    """The number in f32."""
    byte = build.cast("arith.bitcast", value, build.integer(8))
    whole = build.cast("arith.extui", byte, build.integer(32))
    if str(value.type) == _SCALE:
        least = _number(1 << _MANTISSA - 1)  # 2^-127, which f32 has without a leading one
        bits = select(_compare("eq", whole, 0), least, _op("shli", whole, _MANTISSA))
        return _as_float(select(_compare("eq", whole, 255), _number(_NAN), bits))
    of = _format(str(value.type))
    code = _op("andi", whole, 0x7F)
    # With its exponent in that of f32, the number is 2^(127 - bias) times too small.
    scaled = _as_float(_op("shli", code, _MANTISSA - of.mantissa))
    bits = _as_bits(_op("mulf", scaled, _as_float(_number(2 * _BIAS - of.bias << _MANTISSA))))
    if of.largest < 127:
        special = _number(_NAN)
        if of.has_infinity:
            special = select(_compare("eq", code, of.overflow), _number(_INFINITY), special)
        bits = select(_compare("sgt", code, of.largest), special, bits)
    bits = _op("ori", bits, _op("shli", _op("andi", whole, 0x80), 24))
    if of.has_one_zero:
        bits = select(_compare("eq", whole, 0x80), _number(_NAN), bits)
    return _as_float(bits)


def _encoded(value: ir.Value, type_: ir.Type) -> ir.Value:
    """The nearest number of `type_` to one in f32."""
    bits = _as_bits(value)
    size = _op("andi", bits, _SIGN - 1)
    is_nan = _compare("sgt", size, _INFINITY)
    if str(type_) == _SCALE:
        # Ties go up, but that 2^-127 is half of the next number in f32's code alone.
        half = select(_compare("slt", size, 1 << _MANTISSA), _number(0x3FFFFF), _number(0x400000))
        code = _op("shrui", _op("addi", size, half), _MANTISSA)
        is_nan = _op("ori", is_nan, _compare("sle", bits, 0))
        code = select(is_nan, _number(255), code)
    else:
        code = _with_sign(bits, size, is_nan, _format(str(type_)))
    byte = build.cast("arith.trunci", code, build.integer(8))
    return build.cast("arith.bitcast", byte, type_)


def _with_sign(bits: ir.Value, size: ir.Value, is_nan: ir.Value, of: _Format) -> ir.Value:
    dropped = _MANTISSA - of.mantissa
    moved = _op("subi", size, _BIAS - of.bias << _MANTISSA)
    odd = _op("andi", _op("shrui", moved, dropped), 1)
    rounded = _op("shrui", _op("addi", moved, _op("addi", odd, (1 << dropped - 1) - 1)), dropped)
    # Below the least normal number: the sum with a number whose last bit is worth the least one.
    large = _number(_BIAS + dropped + 1 - of.bias << _MANTISSA)
    added = _as_bits(_op("addf", _as_float(size), _as_float(large)))
    is_small = _compare("slt", size, _BIAS + 1 - of.bias << _MANTISSA)
    code = select(is_small, _op("subi", added, large), rounded)
    code = select(_compare("sgt", code, of.largest), _number(of.overflow), code)
    code = select(is_nan, _number(of.nan), code)
    sign = _op("andi", _op("shrui", bits, 24), 0x80)
    if of.has_one_zero:
        sign = select(_compare("eq", code, 0), _number(0), sign)
    return _op("ori", code, sign)


def _number(value: int) -> ir.Value:
    return build.number(value, build.integer(32))


def _as_float(bits: ir.Value) -> ir.Value:
    return build.cast("arith.bitcast", bits, ir.F32Type.get())


def _as_bits(value: ir.Value) -> ir.Value:
    return build.cast("arith.bitcast", value, build.integer(32))


def _op(name: str, a: ir.Value, b: ir.Value | int) -> ir.Value:
    return build.arith(name, a, _number(b) if isinstance(b, int) else b)


def _compare(predicate: str, a: ir.Value, b: int) -> ir.Value:
    return build.compare(predicate, a, _number(b))
