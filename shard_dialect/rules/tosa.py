"""`tosa` ops: elementwise with broadcasting of dimensions of size 1, and matmul."""

from __future__ import annotations

from collections.abc import Callable

from shard_dialect.model import ShardingRule
from shard_dialect.rules.pointwise import elementwise
from shard_dialect.rules.query import Query


def matmul(query: Query) -> ShardingRule | None:
    """`[n, h, c] x [n, c, w] -> [n, h, w]`; the zero points are tensors of one element."""
    zero_points = ",1" * (len(query.operands) - 2)
    return ShardingRule.einsum(
        f"nhc,ncw{zero_points}->nhw", query.operands, query.results, {"c": "sum"}
    )


def with_parameters(tensors: int) -> Callable[[Query], ShardingRule | None]:
    """Elementwise on the first operands; the rest (shifts, zero points) stay whole."""

    def rule(query: Query) -> ShardingRule | None:
        base = elementwise(Query(query.op, query.operands[:tensors], query.results))
        if base is None:
            return None
        rest = tuple(
            None if shape is None else ((),) * len(shape) for shape in query.operands[tensors:]
        )
        return ShardingRule(base.sizes, base.operands + rest, base.results)

    return rule


_ELEMENTWISE = (
    "abs add arithmetic_right_shift bitwise_and bitwise_not bitwise_or bitwise_xor cast ceil "
    "clamp clz cos equal erf exp floor greater greater_equal identity intdiv log logical_and "
    "logical_left_shift logical_not logical_or logical_right_shift logical_xor maximum minimum "
    "pow reciprocal rsqrt select sigmoid sin sub tanh"
).split()

RULES: dict[str, Callable[[Query], ShardingRule | None]] = {
    **{f"tosa.{name}": elementwise for name in _ELEMENTWISE},
    "tosa.const": elementwise,
    "tosa.matmul": matmul,
    "tosa.mul": with_parameters(2),
    "tosa.negate": with_parameters(1),
}
