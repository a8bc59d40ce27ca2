"""`arith` and `math` on tensors: elementwise, all of one shape."""

from __future__ import annotations

from collections.abc import Callable

from shard_dialect.model import ShardingRule
from shard_dialect.model.sharding import Shape
from shard_dialect.rules.query import Query


def elementwise(query: Query) -> ShardingRule | None:
    """One factor for each dimension, shared by all tensors; operands may have dimensions of 1.

    Scalars among the operands (`arith.select`'s condition) have no dimensions; an op without
    operands (a constant) has its result's.
    """
    shape = query.results[0]
    if shape is None:
        return None
    factors = tuple((dim,) for dim in range(len(shape)))

    def dims(other: Shape | None) -> tuple[tuple[int, ...], ...] | None:
        if other is None:
            return None
        return tuple(
            factor if size == whole else ()
            for factor, size, whole in zip(factors, other, shape, strict=True)
        )

    if any(other is not None and len(other) != len(shape) for other in query.operands):
        return None
    return ShardingRule(shape, tuple(map(dims, query.operands)), tuple(map(dims, query.results)))


_ARITH = (
    "addf addi andi bitcast ceildivsi ceildivui cmpf cmpi divf divsi divui extf extsi extui "
    "floordivsi fptosi fptoui index_cast index_castui maximumf maxnumf maxsi maxui minimumf "
    "minnumf minsi minui mulf muli negf ori remf remsi remui select shli shrsi shrui sitofp subf "
    "subi truncf trunci uitofp xori"
).split()

_MATH = (
    "absf absi acos acosh asin asinh atan atan2 atanh cbrt ceil copysign cos cosh ctlz ctpop cttz "
    "erf erfc exp exp2 expm1 floor fma fpowi ipowi isfinite isinf isnan isnormal log log10 log1p "
    "log2 powf round roundeven rsqrt sin sinh sqrt tan tanh trunc"
).split()

RULES: dict[str, Callable[[Query], ShardingRule | None]] = {
    "arith.constant": elementwise,
    **{f"arith.{name}": elementwise for name in _ARITH},
    **{f"math.{name}": elementwise for name in _MATH},
}
