"""Move gathers up before the op that makes their operand, where less data is gathered there.

    %1 = stablehlo.broadcast_in_dim %0      [[0]] -> [[0], []]
    %2 = "mesh.all_gather"(%1)              [[0], []] -> [[], []]
      becomes
    %1 = "mesh.all_gather"(%0)              [[0]] -> [[]]
    %2 = stablehlo.broadcast_in_dim %1

Each device then computes the op on more of the tensor. The arithmetic of a product counts as bytes,
as it does where shardings are chosen.
"""

from __future__ import annotations

from dataclasses import dataclass

from shard_dialect.passes.optimize.collective_pass import CollectivePass
from shard_dialect.passes.optimize.graph.function_graph import FunctionGraph
from shard_dialect.passes.optimize.graph.graph_elements import GraphOp
from shard_dialect.passes.optimize.move_reshard import move_before


@dataclass(frozen=True)
class RaiseGathers(CollectivePass):
    """Gather before an op whose operands are smaller than its results."""

    name = "raise-gathers"

    def improve_at(self, reshard: GraphOp, graph: FunctionGraph) -> bool:
        """Give the op before a reshard the sharding after it, if that moves fewer bytes."""
        return reshard.name != "mesh.local_split" and move_before(reshard, graph)
