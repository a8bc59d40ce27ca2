"""From an op to its sharding rule: one table a dialect, open to users.

    @sharding_rule("mydialect.scale")
    def _(op):
        return elementwise(op)

A rule function sees the op and its shapes and gives a `ShardingRule`, or `None` where the op, as
it stands, has none; the op then runs replicated, with a warning.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from shard_dialect.ir.program import Op, Value
from shard_dialect.model import ShardingRule
from shard_dialect.rules import linalg, pointwise, tensor, tosa
from shard_dialect.rules.query import Query

RuleFunction = Callable[[Query], "ShardingRule | None"]

_RULES: dict[str, RuleFunction] = {
    **pointwise.RULES,
    **tensor.RULES,
    **tosa.RULES,
    **linalg.RULES,
}


def sharding_rule(*names: str) -> Callable[[RuleFunction], RuleFunction]:
    """Register the decorated function as the rule of the ops called `names`."""

    def register(function: RuleFunction) -> RuleFunction:
        for name in names:
            _RULES[name] = function
        return function

    return register


def rule_of(op: Op, values: Sequence[Value]) -> ShardingRule | None:
    """The op's rule, or `None` where there is none."""
    touched = [values[number] for number in (*op.operands, *op.results)]
    if any(value.is_tensor and value.shape is None for value in touched):
        return None
    function = _RULES.get(op.name)
    if function is None and op.name.startswith("linalg."):
        function = linalg.structured
    if function is None:
        return None
    operands = tuple(values[number].shape for number in op.operands)
    results = tuple(values[number].shape for number in op.results)
    return function(Query(op.name, op.handle, operands, results))


__all__ = ["Query", "rule_of", "sharding_rule"]
