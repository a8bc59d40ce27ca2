"""The rules of collectives in manual computations: StableHLO's, and upstream's.

    all_gather dim 1     ([a, b]) -> ([a, c]) whole={b, c}

They exchange shards along manual axes. The devices of a group have equal positions along the free
axes, so a dimension that the collective does not change may be split along them. A dimension that
it changes is whole.
"""

from __future__ import annotations

from collections.abc import Callable

from shard_dialect.ir.bindings import ir
from shard_dialect.ir.mesh.manual_computation import computations_around
from shard_dialect.ir.reading.spelling import scatter_dim
from shard_dialect.model import ShardingRule
from shard_dialect.rules.rule_query import Query
from shard_dialect.rules.stablehlo import data_movement
from shard_dialect.rules.stablehlo.collective_rules import changing

_Rule = Callable[[Query], ShardingRule | None]


def _changing(*names: str) -> _Rule:
    return changing(*names, staying="passed")


_RULES: dict[str, _Rule] = {
    "mesh.collective_permute": data_movement.alike,
    "shard.all_gather": _changing("gather_axis"),
    "shard.all_reduce": data_movement.alike,
    "shard.all_slice": _changing("slice_axis"),
    "shard.all_to_all": _changing("split_axis", "concat_axis"),
    "shard.reduce_scatter": lambda query: _changing(scatter_dim())(query),
    "stablehlo.all_gather": _changing("all_gather_dim"),
    "stablehlo.all_reduce": data_movement.alike,
    "stablehlo.all_to_all": _changing("split_dimension", "concat_dimension"),
    "stablehlo.collective_permute": data_movement.alike,
    "stablehlo.partition_id": data_movement.alike,
    "stablehlo.reduce_scatter": _changing("scatter_dimension"),
}
OPS = tuple(_RULES)


def rule_inside(op: ir.Operation) -> _Rule | None:
    """The rule function of a collective in a manual computation; `None` for other ops."""
    if op.name not in _RULES or next(computations_around(op), None) is None:
        return None
    return _RULES[op.name]
