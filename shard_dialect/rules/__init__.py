"""From an op to its sharding rule: one table a dialect, open to users.

    @sharding_rule("mydialect.scale")
    def _(query):
        return elementwise(query)

On one op, its rule may stand as text in `mesh.sharding_rule` (`model.rule_text`).

A rule function sees the op and its global shapes and gives a `ShardingRule`, or `None` where the
op, as it stands, has none; the op then runs replicated, with a warning.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from shard_dialect.ir.attributes import RULE
from shard_dialect.ir.bindings import ir
from shard_dialect.model import ShardingRule
from shard_dialect.model.rule_text import read_rule
from shard_dialect.rules import linalg, pointwise, stablehlo, tensor, tosa
from shard_dialect.rules.query import Query

RuleFunction = Callable[[Query], "ShardingRule | None"]

_RULES: dict[str, RuleFunction] = {
    **pointwise.RULES,
    **stablehlo.RULES,
    **tensor.RULES,
    **tosa.RULES,
}


def sharding_rule(*names: str) -> Callable[[RuleFunction], RuleFunction]:
    """Register the decorated function as the rule of the ops called `names`."""

    def register(function: RuleFunction) -> RuleFunction:
        for name in names:
            _RULES[name] = function
        return function

    return register


def rule_of(op: ir.Operation) -> ShardingRule | None:
    """The op's rule, or `None` where there is none, as for tensors of unknown size.

    The one written on the op goes before that of its name.
    """
    if RULE in op.attributes:
        written = read_rule(op.attributes[RULE].value)
        return replace(written.rule, whole=written.kept_whole).contiguous()
    function = _RULES.get(op.name)
    if function is None and op.name.startswith("linalg."):
        function = linalg.structured
    query = Query.of(op) if function else None
    return function(query) if function and query else None


__all__ = ["Query", "rule_of", "sharding_rule"]
