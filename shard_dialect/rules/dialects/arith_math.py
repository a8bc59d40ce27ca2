"""Elementwise `arith` and `math` ops on tensors, and rules that several dialects share."""

from __future__ import annotations

from shard_dialect.model import ShardingRule
from shard_dialect.model.sharding import Shape
from shard_dialect.rules.op_record import OpRecord, alike
from shard_dialect.rules.padding import HARMLESS, in_second_operand
from shard_dialect.rules.partial_values import (
    adds,
    chooses,
    converts,
    multiplies_alike,
    negates,
    takes_maximum,
    takes_minimum,
)
from shard_dialect.rules.rule_query import Query


def elementwise(query: Query) -> ShardingRule | None:
    """One factor per dimension, shared by all tensors; operands may have dimensions of size 1.

    Scalar operands (`arith.select`'s condition) have no factors. `None` where the ranks differ.
    """
    shape = query.results[0]
    if shape is None:
        return None
    factors = tuple((dim,) for dim in range(len(shape)))

    def dims(other: Shape | None) -> tuple[tuple[int, ...], ...] | None:
        if other is None:
            return None
        return tuple(
            factor if size == full else ()
            for factor, size, full in zip(factors, other, shape, strict=True)
        )

    if any(other is not None and len(other) != len(shape) for other in query.operands):
        return None
    return ShardingRule(shape, tuple(map(dims, query.operands)), tuple(map(dims, query.results)))


def no_factors(query: Query) -> ShardingRule:
    """A rule that splits nothing, for ops on single elements or on state kept between runs."""
    operands, results = (
        tuple(None if shape is None else ((),) * len(shape) for shape in shapes)
        for shapes in (query.operands, query.results)
    )
    return ShardingRule((), operands, results)


_ARITH = (
    "addf addi addui_extended andi bitcast ceildivsi ceildivui cmpf cmpi constant convertf divf "
    "divsi divui extf extsi extui floordivsi flush_denormals fptosi fptoui index_cast index_castui "
    "maximumf maxnumf maxsi maxui minimumf minnumf minsi minui mulf muli mulsi_extended "
    "mului_extended negf ori remf remsi remui scaling_extf scaling_truncf select shli shrsi shrui "
    "sitofp subf subi subui_extended truncf trunci uitofp xori"
).split()

_MATH = (
    "absf absi acos acosh asin asinh atan atan2 atanh cbrt ceil clampf copysign cos cosh ctlz "
    "ctpop cttz erf erfc exp exp2 expm1 floor fma fpowi ipowi isfinite isinf isnan isnormal log "
    "log10 log1p log2 powf round roundeven rsqrt sin sincos sinh sqrt tan tanh trunc"
).split()

_PLAIN = OpRecord(elementwise)
RECORDS: dict[str, OpRecord] = {
    **alike("arith", _ARITH, _PLAIN),
    **alike("math", _MATH, _PLAIN),
    **{
        name: OpRecord(elementwise, padding=in_second_operand(content))
        for name, content in HARMLESS.items()
        if name.startswith(("arith.", "math."))
    },
    **alike("arith", ("addf", "addi", "subf", "subi"), OpRecord(elementwise, partial=adds)),
    **alike("arith", ("extf", "truncf"), OpRecord(elementwise, partial=converts)),
    **alike("arith", ("maximumf", "maxsi"), OpRecord(elementwise, partial=takes_maximum)),
    **alike("arith", ("minimumf", "minsi"), OpRecord(elementwise, partial=takes_minimum)),
    **alike("arith", ("mulf", "muli"), OpRecord(elementwise, partial=multiplies_alike)),
    "arith.negf": OpRecord(elementwise, partial=negates),
    "arith.select": OpRecord(elementwise, partial=chooses),
}
