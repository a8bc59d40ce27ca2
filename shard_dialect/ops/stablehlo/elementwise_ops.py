"""The records of StableHLO's elementwise ops, and of those of CHLO."""

from __future__ import annotations

from typing import Any

from shard_dialect.ops.op_record import OpRecord, SampleFunction
from shard_dialect.ops.partial_values import (
    adds,
    chooses,
    converts,
    divides,
    multiplies,
    negates,
    takes_maximum,
    takes_minimum,
)
from shard_dialect.ops.scalar_functions import Trait
from shard_dialect.ops.stablehlo.data_movement import elementwise
from shard_dialect.ops.stablehlo.facets import expansion, python, sample


def _each(function: str, sample: SampleFunction | str | None = None, **facets: Any) -> OpRecord:
    return OpRecord(elementwise, function, sample, **facets)


RECORDS: dict[str, OpRecord] = {
    "abs": _each("abs", "f32"),
    "add": _each(
        "add",
        sample("arithmetic", "add", "ui32", "complex<f32>"),
        partial=adds,
        lowering=expansion("upstream_workarounds:add"),
    ),
    "and": _each("and", "i32 i32"),
    "atan2": _each("atan2", sample("arithmetic", "atan2")),
    "cbrt": _each("cbrt", "f32"),
    "ceil": _each("ceil", "f32"),
    "clamp": _each("clamp"),
    "compare": _each("compare", sample("compared"), python=python("compare", "conversions")),
    "complex": _each("complex", sample("complex_")),
    "constant": _each("constant", python=python("constant", "conversions")),
    "convert": _each(
        "convert",
        sample("convert"),
        partial=converts,
        python=python("cast", "conversions"),
        lowering=expansion("upstream_workarounds:convert"),
    ),
    "cosine": _each("cos", "f32"),
    "count_leading_zeros": _each("clz", "i32"),
    "divide": _each("div", sample("arithmetic", "divide", "ui32", "complex<f32>"), partial=divides),
    "exponential": _each("exp", "f32"),
    "exponential_minus_one": _each("expm1", "f32"),
    "floor": _each("floor", "f32"),
    "imag": _each("imag", sample("part_of_complex", "imag")),
    "is_finite": _each("isfinite", "f32 -> i1"),
    "log": _each("log", "f32"),
    "log_plus_one": _each("log1p", "f32"),
    "logistic": _each("logistic", "f32"),
    "maximum": _each("max", sample("arithmetic", "maximum", "ui32"), partial=takes_maximum),
    "minimum": _each("min", sample("arithmetic", "minimum", "ui32"), partial=takes_minimum),
    "multiply": _each(
        "mul", sample("arithmetic", "multiply", "ui32", "complex<f32>"), partial=multiplies
    ),
    "negate": _each("neg", "f32", partial=negates),
    "not": _each("not", "i32"),
    "or": _each("or", "i32 i32"),
    "popcnt": _each("popcnt", "i32"),
    "power": _each("power", sample("arithmetic", "power")),
    "real": _each("real", sample("part_of_complex", "real")),
    "reduce_precision": _each("narrowed", python=python("reduce_precision")),
    "remainder": _each("remainder", sample("arithmetic", "remainder", "ui32")),
    "round_nearest_afz": _each("round", "f32"),
    "round_nearest_even": _each("even", "f32"),
    "rsqrt": _each("rsqrt", "f32"),
    "select": _each("select", partial=chooses),
    "shift_left": _each("left", "i32 3"),
    "shift_right_arithmetic": _each("right", "i32 3"),
    "shift_right_logical": _each("right", "i32 3", traits=Trait.UNSIGNED),
    "sign": _each("sign", "f32"),
    "sine": _each("sin", "f32"),
    "sqrt": _each("sqrt", "f32"),
    "subtract": _each(
        "sub", sample("arithmetic", "subtract", "ui32", "complex<f32>"), partial=adds
    ),
    "tan": _each("tan", "f32"),
    "tanh": _each("tanh", "f32"),
    "xor": _each("xor", "i32 i32"),
}

CHLO: dict[str, OpRecord] = {
    **{
        name: _each(name, "f32")
        for name in (
            "acos acosh asin asinh atan atanh bessel_i1e cosh digamma erf erf_inv erfc lgamma sinh "
            "square tan"
        ).split()
    },
    **{name: _each(name, "f32 f32") for name in ("next_after", "polygamma", "zeta")},
    "conj": _each("conj", "complex<f32>"),
    "is_inf": _each("isinf", "f32 -> i1"),
    "is_neg_inf": _each("is_neg_inf", "f32 -> i1"),
    "is_pos_inf": _each("is_pos_inf", "f32 -> i1"),
}
"""The functions of CHLO, which stay one op until they are lowered; importing decomposes others."""
