"""Compute an op on a slice if only that slice of its replicated result is used.

    %1 = math.exp %0                [[], []]
    %2 = "mesh.local_split"(%1)     [[], []] -> [[0], []]
      becomes
    %1 = "mesh.local_split"(%0)
    %2 = math.exp %1                half the work on two devices

Slices move up, op by op. They do not move past an op whose other users read the unsharded result,
which would have to be gathered, nor past one whose shards depend on other shards (a reversal).
"""

from __future__ import annotations

from dataclasses import dataclass

from shard_dialect.model import AllSlice
from shard_dialect.passes.optimize.collective_pass import CollectivePass
from shard_dialect.passes.optimize.graph.function_graph import FunctionGraph
from shard_dialect.passes.optimize.graph.graph_elements import GraphOp
from shard_dialect.passes.optimize.move_reshard import move_before


@dataclass(frozen=True)
class ComputeOnSlices(CollectivePass):
    """Compute on a slice where only a slice is used."""

    name = "compute-on-slices"

    def improve_at(self, reshard: GraphOp, graph: FunctionGraph) -> bool:
        """Give the op before a slice the sharding of the slice, if that is cheaper."""
        collective = graph.collective_of(reshard)
        is_slice = all(isinstance(step, AllSlice) for step in collective.steps)
        return is_slice and move_before(reshard, graph)
