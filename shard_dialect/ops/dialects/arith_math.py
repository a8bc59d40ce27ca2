"""The records of elementwise `arith` and `math` ops on tensors."""

from __future__ import annotations

from typing import Any

from shard_dialect.ops.factors import elementwise
from shard_dialect.ops.op_record import Later, OpRecord, SampleFunction
from shard_dialect.ops.partial_values import (
    adds,
    chooses,
    converts,
    multiplies_alike,
    negates,
    takes_maximum,
    takes_minimum,
)
from shard_dialect.ops.scalar_functions import Trait

SHAPES_ALIKE = Later("passes.specialize.shape_rules:elementwise")
"""All tensors of an op have one shape."""


def _record(function: str, sample: SampleFunction | str = "", **facets: Any) -> OpRecord:
    return OpRecord(elementwise, function, sample or None, shapes=SHAPES_ALIKE, **facets)


def _cast(sample: str, name: str = "cast", **facets: Any) -> OpRecord:
    python = Later(f"backends.python.ops.conversions:{name}") if name else None
    return _record("convert", sample, python=python, **facets)


def _stablehlo(name: str, *given: Any) -> Later:
    return Later(f"passes.lower.to_stablehlo.stablehlo_elementwise:{name}", given)


_U = Trait.UNSIGNED
_COMPARE = Later("backends.python.ops.conversions:compare")
_EQUAL = Later("backends.python.ops.conversions:equal")
_CONSTANT = Later("backends.python.ops.conversions:constant")
_UPSTREAM = "upstream lowers it neither to LLVM nor to libm"

ARITH: dict[str, OpRecord] = {
    "addf": _record("add", "f32 f32", partial=adds),
    "addi": _record("add", "i32 i32", partial=adds),
    "addui_extended": _record(
        "other", "i32 i32 -> i32 i1 | %0, %1 : $r, $s", stablehlo=_stablehlo("sum_and_carry")
    ),
    "andi": _record("and", "i32 i32"),
    "bitcast": _record(
        "bitcast",
        "f32 -> i32",
        stablehlo=_stablehlo("bits"),
        python=Later("backends.python.ops.conversions:bitcast"),
    ),
    "ceildivsi": _record(
        "ceil_quotient", "i32 3", harmless=1, stablehlo=_stablehlo("rounded_quotient", "GE", 1)
    ),
    "ceildivui": _record(
        "ceil_quotient", "i32 3", harmless=1, stablehlo=_stablehlo("ceil_quotient")
    ),
    "cmpf": _record(
        "compare",
        "f32 f32 -> i1 | olt, %0, %1 : $0",
        python=_COMPARE,
        stablehlo=_stablehlo("compared_floats"),
    ),
    "cmpi": _record(
        "compare",
        "i32 i32 -> i1 | slt, %0, %1 : $0",
        python=_COMPARE,
        stablehlo=_stablehlo("compared_integers"),
    ),
    "constant": _record(
        "constant",
        Later("testing.samples.elementwise_samples:constant"),
        python=_CONSTANT,
        stablehlo=_stablehlo("constant_of"),
    ),
    "convertf": _cast("f16 -> bf16", "", not_run=_UPSTREAM),
    "divf": _record("div", "f32 f32"),
    "divsi": _record("quotient", "i32 3", harmless=1),
    "divui": _record("quotient", "i32 3", harmless=1, traits=_U),
    "extf": _cast("f32 -> f64", partial=converts, stablehlo=_stablehlo("converted")),
    "extsi": _cast("i32 -> i64", stablehlo=_stablehlo("from_signed")),
    "extui": _cast("i32 -> i64", stablehlo=_stablehlo("from_unsigned")),
    "floordivsi": _record(
        "floor_quotient", "i32 3", harmless=1, stablehlo=_stablehlo("rounded_quotient", "LT", -1)
    ),
    "flush_denormals": _record("other", "f32", not_run=_UPSTREAM),
    "fptosi": _cast("f32 -> i32", stablehlo=_stablehlo("converted")),
    "fptoui": _cast(
        "f32 -> i32 | %a : $0 to $r | %a = math.absf %0 : $0", stablehlo=_stablehlo("to_unsigned")
    ),
    "index_cast": _cast("i32 -> index", "index_cast", stablehlo=_stablehlo("from_signed")),
    "index_castui": _cast("i32 -> index", "", stablehlo=_stablehlo("from_unsigned")),
    "maximumf": _record("max", "f32 f32", partial=takes_maximum),
    "maxnumf": _record("maxnum", "f32 f32", stablehlo=_stablehlo("number_order", "maximum")),
    "maxsi": _record("max", "i32 i32", partial=takes_maximum),
    "maxui": _record("max", "i32 i32", traits=_U),
    "minimumf": _record("min", "f32 f32", partial=takes_minimum),
    "minnumf": _record("minnum", "f32 f32", stablehlo=_stablehlo("number_order", "minimum")),
    "minsi": _record("min", "i32 i32", partial=takes_minimum),
    "minui": _record("min", "i32 i32", traits=_U),
    "mulf": _record("mul", "f32 f32", partial=multiplies_alike),
    "muli": _record("mul", "i32 i32", partial=multiplies_alike),
    "mulsi_extended": _record(
        "other", "i32 i32 -> i32 i32", stablehlo=_stablehlo("halves_of_product", False)
    ),
    "mului_extended": _record(
        "other", "i32 i32 -> i32 i32", stablehlo=_stablehlo("halves_of_product", True)
    ),
    "negf": _record("neg", "f32", partial=negates),
    "ori": _record("or", "i32 i32"),
    "remf": _record("remainder", "f32 f32"),
    "remsi": _record("rest", "i32 3", harmless=1),
    "remui": _record("rest", "i32 3", harmless=1, traits=_U),
    "scaling_extf": _cast(
        "f4E2M1FN f8E8M0FNU -> f32 | %0, %1 : $0, $1 to $r", "", not_run=_UPSTREAM
    ),
    "scaling_truncf": _cast(
        "f32 f8E8M0FNU -> f4E2M1FN | %0, %1 : $0, $1 to $r", "", not_run=_UPSTREAM
    ),
    "select": _record(
        "select", Later("testing.samples.elementwise_samples:select"), partial=chooses
    ),
    "shli": _record("left", "i32 3", stablehlo=_stablehlo("on_unsigned", "shift_left")),
    "shrsi": _record("right", "i32 3"),
    "shrui": _record(
        "right", "i32 3", traits=_U, stablehlo=_stablehlo("on_unsigned", "shift_right_logical")
    ),
    "sitofp": _cast("i32 -> f32", stablehlo=_stablehlo("from_signed")),
    "subf": _record("sub", "f32 f32", partial=adds),
    "subi": _record("sub", "i32 i32", partial=adds),
    "subui_extended": _record(
        "other",
        "i32 i32 -> i32 i1 | %0, %1 : $r, $s",
        stablehlo=_stablehlo("difference_and_borrow"),
    ),
    "truncf": _cast("f64 -> f32", partial=converts, stablehlo=_stablehlo("converted")),
    "trunci": _cast("i64 -> i32", stablehlo=_stablehlo("truncated")),
    "uitofp": _cast("i32 -> f64", stablehlo=_stablehlo("from_unsigned")),
    "xori": _record("xor", "i32 i32"),
}

_OF_ONE_FLOAT = (
    "acos acosh asin asinh atan atanh cbrt ceil cos cosh erf erfc exp expm1 floor log log1p "
    "round rsqrt sin sinh sqrt tan tanh"
).split()
MATH: dict[str, OpRecord] = {
    **{name: _record(name, "f32") for name in _OF_ONE_FLOAT},
    "absf": _record("abs", "f32"),
    "absi": _record("abs", "i32"),
    "atan2": _record("atan2", "f32 f32"),
    "clampf": _record(
        "clamp",
        "f32 f32 f32 | %0 to [%1, %2] : $r",
        python="{m}.maximum({m}.minimum({0}, {2}), {1})",
        stablehlo=_stablehlo("clamped"),
    ),
    "copysign": _record("copysign", "f32 f32", stablehlo=_stablehlo("copied_sign")),
    "ctlz": _record("clz", "i32"),
    "ctpop": _record("popcnt", "i32"),
    "cttz": _record("ctz", "i32"),
    "exp2": _record("exp2", "f32", stablehlo=_stablehlo("power_of_two")),
    "fma": _record("fma", "f32 f32 f32", stablehlo=_stablehlo("multiply_add")),
    "fpowi": _record(
        "integer_power",
        "f32 i32 | %0, %1 : $0, $1",
        traits=Trait.STEEP,
        stablehlo=_stablehlo("integer_power"),
    ),
    "ipowi": _record("integer_power", "i32 i32", harmless=0, not_run=_UPSTREAM),
    "isfinite": _record("isfinite", "f32 -> i1 | %0 : $0"),
    "isinf": _record(
        "isinf", "f32 -> i1 | %0 : $0", stablehlo=_stablehlo("is_infinite"), not_run=_UPSTREAM
    ),
    "isnan": _record("isnan", "f32 -> i1 | %0 : $0", stablehlo=_stablehlo("is_nan")),
    "isnormal": _record("isnormal", "f32 -> i1 | %0 : $0", not_run=_UPSTREAM),
    "log10": _record("log10", "f32", stablehlo=_stablehlo("scaled_log", 10)),
    "log2": _record("log2", "f32", stablehlo=_stablehlo("scaled_log", 2)),
    "powf": _record("power", "f32 f32"),
    "roundeven": _record("even", "f32"),
    "sincos": _record(
        "sincos", "f32 -> f32 f32 | %0 : $0", stablehlo=_stablehlo("sine_and_cosine")
    ),
    "trunc": _record("trunc", "f32", stablehlo=_stablehlo("toward_zero")),
}

_OF_COMPLEX = "add sub mul div neg exp expm1 log log1p sqrt rsqrt sin cos tan tanh abs".split()


def _complex(function: str, **facets: Any) -> OpRecord:
    return OpRecord(function=function, shapes=SHAPES_ALIKE, **facets)


COMPLEX: dict[str, OpRecord] = {
    **{name: _complex(name) for name in _OF_COMPLEX},
    "angle": _complex("other"),
    "atan2": _complex("other"),
    "bitcast": _complex("bitcast"),
    "conj": _complex("conj", stablehlo=_stablehlo("conjugate")),
    "constant": OpRecord(
        function="constant", python=_CONSTANT, stablehlo=_stablehlo("complex_constant_of")
    ),
    "create": _complex("complex"),
    "eq": _complex("compare", python=_EQUAL, stablehlo=_stablehlo("equality", "EQ")),
    "im": _complex("imag"),
    "neq": _complex("compare", python=_EQUAL, stablehlo=_stablehlo("equality", "NE")),
    "pow": _complex("power"),
    "powi": _complex("other"),
    "re": _complex("real"),
    "sign": _complex("direction"),
}
"""Ops without a rule: they stand in the bodies of others."""

_OF_INDEX = {"add": "add", "mul": "mul", "remu": "rest", "sub": "sub"}
INDEX = {
    **{name: OpRecord(function=function) for name, function in _OF_INDEX.items()},
    "constant": OpRecord(function="constant", python=_CONSTANT),
}
"""Ops in the bodies of TOSA's Fourier transforms."""

RECORDS: dict[str, OpRecord] = {
    f"{dialect}.{name}": record
    for dialect, records in {"arith": ARITH, "math": MATH}.items()
    for name, record in records.items()
}
WITHOUT_RULE = {
    f"{dialect}.{name}": record
    for dialect, records in {"complex": COMPLEX, "index": INDEX}.items()
    for name, record in records.items()
}
