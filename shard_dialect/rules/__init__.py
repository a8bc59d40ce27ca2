"""From an op to its sharding rule: one table a dialect, open to users.

    @sharding_rule("mydialect.scale")
    def _(query):
        return elementwise(query)

    sharding_rule("mydialect.outer")("([i], [j]) -> ([i, j])")

On one op, its rule may stand as text in `mesh_rules.sharding_rule` (`model.rule_text`).

A rule function sees the op and its global shapes and gives a `ShardingRule`, a rule as text, or
`None` where the op, as it stands, has none; the op then runs replicated, with a warning.

Most ops on shards are the same op on smaller tensors. Where attributes speak of sizes, a second
function changes them, registered with `@cutting("mydialect.crop")`; it may also write ops around
the op, which are to know where this device's shard begins (`rules.partitioning`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from shard_dialect.ir.bindings import ir
from shard_dialect.ir.mesh.attributes import RULE
from shard_dialect.model import ShardingRule
from shard_dialect.model.rule_text import read_rule
from shard_dialect.rules import manual_collectives, stablehlo
from shard_dialect.rules.dialects import (
    arith_math,
    bufferization_rules,
    linalg_bodies,
    linalg_rules,
    mesh_rules,
    tensor_rules,
    tosa_rules,
)
from shard_dialect.rules.partitioning import Cut, CutFunction, Shard
from shard_dialect.rules.query import Query

RuleFunction = Callable[[Query], "ShardingRule | str | None"]
_Given = TypeVar("_Given", bound="RuleFunction | str")

_RULES: dict[str, RuleFunction] = {
    **bufferization_rules.RULES,
    **linalg_rules.RULES,
    **mesh_rules.RULES,
    **arith_math.RULES,
    **stablehlo.RULES,
    **tensor_rules.RULES,
    **tosa_rules.RULES,
}


def sharding_rule(*names: str) -> Callable[[_Given], _Given]:
    """Register the decorated function, or a rule as text, as the rule of the ops called `names`."""

    def register(given: _Given) -> _Given:
        rule: RuleFunction = (lambda _: given) if isinstance(given, str) else given
        for name in names:
            _RULES[name] = rule
        return given

    return register


_CUTS: dict[str, CutFunction] = {
    **linalg_bodies.CUTS,
    **stablehlo.CUTS,
    **tensor_rules.CUTS,
    **tosa_rules.CUTS,
}


def cutting(*names: str) -> Callable[[CutFunction], CutFunction]:
    """Register the decorated function as what cuts the ops called `names`."""

    def register(function: CutFunction) -> CutFunction:
        for name in names:
            _CUTS[name] = function
        return function

    return register


def cutting_of(op: ir.Operation) -> CutFunction | None:
    """What cuts the op, or `None` where smaller types are all it takes."""
    return _CUTS.get(op.name)


def rule_of(op: ir.Operation) -> ShardingRule | None:
    """The op's rule, or `None` where there is none, as for tensors of unknown size.

    The one written on the op goes before that of its name.
    """
    function = manual_collectives.rule_inside(op) or _RULES.get(op.name)
    if RULE in op.attributes:
        text = op.attributes[RULE].value
        function = lambda _: text  # noqa: E731
    if function is None and op.name.startswith("linalg."):
        function = linalg_rules.structured
    query = Query.of(op) if function else None
    found = function(query) if function and query else None
    if query is not None and isinstance(found, str):
        return read_rule(found, (*query.operands, *query.results)).rule
    return None if isinstance(found, str) else found


__all__ = ["Cut", "Query", "Shard", "cutting", "cutting_of", "rule_of", "sharding_rule"]
