"""Split an all-reduce into a reduce-scatter and an all-gather, with the ops in between on shards.

    %1 = "mesh.all_reduce"(%0)      [[], [], [0]] -> [[], []]
    %2 = math.exp %1
      becomes
    %1 = "mesh.reduce_scatter"(%0)  [[], [], [0]] -> [[0], []]
    %2 = math.exp %1                half the work on two devices
    %3 = "mesh.all_gather"(%2)      [[0], []] -> [[], []]

Both move the same bytes, so the all-reduce stays where no op can work on shards, or where the
devices divide no dimension of the tensor. (arXiv 2211.05102, section 3.2.2; RFC, walkthrough of the
2-D weight stationary MLP.)
"""

from __future__ import annotations

from dataclasses import dataclass

from shard_dialect.passes.optimize.collective_pass import CollectivePass, sources
from shard_dialect.passes.optimize.graph.function_graph import FunctionGraph
from shard_dialect.passes.optimize.graph.graph_elements import GraphOp
from shard_dialect.passes.optimize.move_reshard import move_past


@dataclass(frozen=True)
class ReduceToPieces(CollectivePass):
    """Reduce to shards where ops can work on shards, and gather later."""

    name = "reduce-to-pieces"

    def improve_at(self, reshard: GraphOp, graph: FunctionGraph) -> bool:
        """Scatter the result of an all-reduce along the first dimension where that is cheaper.

        Dimensions that are split already come first, so that others stay unsplit for their users.
        """
        source, target = sources(reshard, graph)
        axes = tuple(axis for axis in source.partial if axis not in target.axes)
        if not axes:
            return False
        dims = sorted(range(target.rank), key=lambda dim: not target.split_axes[dim])
        return any(
            move_past(reshard, target.with_dim(dim, target.split_axes[dim] + axes), graph)
            for dim in dims
        )
