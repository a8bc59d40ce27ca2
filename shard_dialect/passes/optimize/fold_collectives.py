"""Replace two consecutive reshards by one from the first source to the last target.

    %1 = "mesh.all_reduce"(%0)      [[], [], [0]] -> [[], []]
    %2 = "mesh.local_split"(%1)     [[], []]      -> [[], [0]]
      becomes
    %2 = "mesh.reduce_scatter"(%0)  [[], [], [0]] -> [[], [0]]

So consecutive all-reduces over different axes become one, a slice cancels the gather before it, and
all-to-alls, permutations and masks cancel their inverses.
"""

from __future__ import annotations

from dataclasses import dataclass

from shard_dialect.passes.optimize.change_op_sharding import (
    Resharder,
    reshard_before,
)
from shard_dialect.passes.optimize.collective_pass import CollectivePass
from shard_dialect.passes.optimize.graph.function_graph import FunctionGraph
from shard_dialect.passes.optimize.graph.graph_elements import GraphOp, InsertionPoint


@dataclass(frozen=True)
class FoldCollectives(CollectivePass):
    """Plan consecutive reshards as one."""

    name = "fold-collectives"

    def improve_at(self, reshard: GraphOp, graph: FunctionGraph) -> bool:
        """Plan a reshard and the one before it as one, if that is cheaper or shorter."""
        between = reshard.operands[0]
        before = reshard_before(reshard, between) if between is not None else None
        value = before.operands[0] if before is not None else None
        if between is None or before is None or value is None:
            return False
        first, second = graph.collective_of(before), graph.collective_of(reshard)
        resharder = Resharder(graph, graph.shardings.grid(first.source.grid))
        direct = resharder.plan(value, first.source, second.target)
        total, steps = resharder.price_of(reshard), len(second.steps)
        if graph.is_only_for(between, reshard):
            total += resharder.price_of(before)
            steps += len(first.steps)
        if (direct.cost, len(direct.steps)) >= (total, steps):
            return False
        at = InsertionPoint.at(reshard)
        folded = resharder.write(value, first.source, second.target, at)
        graph.replace_all_uses(reshard.results[0], folded)
        return True
