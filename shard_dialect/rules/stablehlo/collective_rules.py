"""StableHLO's own collectives.

    all_gather dim 1     ([a, b]) -> ([a, c]) whole={a, b, c}

In a program on global tensors each is over devices that see all of them: a shard would be exchanged
for a shard of another place. So nothing is split; dimensions that stay as they are still pass on
what is said of them. In manual computations they may be split, too (`rules.manual_collectives`).
"""

from __future__ import annotations

from collections.abc import Callable

from shard_dialect.model import ShardingRule
from shard_dialect.rules.factors import Factors, Kind
from shard_dialect.rules.query import Query
from shard_dialect.rules.stablehlo.attribute_reading import integer


def changing(*names: str, staying: Kind = "whole") -> Callable[[Query], ShardingRule | None]:
    """The dimensions that the attributes `names` give are not the same in operands and results."""

    def rule(query: Query) -> ShardingRule | None:
        factors = Factors(query)
        shape, made = factors.operands[0], factors.results[0]
        changed = dict.fromkeys(integer(query.op, name) for name in names)
        operands, results = len(factors.operands), len(factors.results)
        for dim, size in enumerate(shape):
            if dim not in changed:
                factors.add_to_all(dim, size, staying)
        for dim in changed:
            factors.add(shape[dim], (dim,) * operands, (), "whole")
            factors.add(made[dim], (), (dim,) * results, "whole")
        return factors.rule()

    return rule
