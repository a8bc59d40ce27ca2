"""Move gathers down past ops that can work on shards, to where the gathered data is smallest.

    %1 = "mesh.all_gather"(%0)      [[], [0]] -> [[], []]
    %2 = arith.maximumf %1, %z
      becomes
    %1 = "mesh.local_split"(%z)     free
    %2 = arith.maximumf %0, %1      half the work on two devices
    %3 = "mesh.all_gather"(%2)

The sharding rule decides whether an op can work on shards. Its result is gathered instead, or
reduced if the op sums along the split dimension. Of up to 16 ops after the gather, it moves past
the number that moves the fewest bytes, then does the least work. It stays before an op that needs
all elements (a sort), or whose result has more bytes. (RFC, moving an all-gather down.)
"""

from __future__ import annotations

from dataclasses import dataclass

from shard_dialect.passes.optimize.collective_pass import CollectivePass, sources
from shard_dialect.passes.optimize.graph.function_graph import FunctionGraph
from shard_dialect.passes.optimize.graph.graph_elements import GraphOp
from shard_dialect.passes.optimize.move_reshard import move_past


@dataclass(frozen=True)
class SinkGathers(CollectivePass):
    """Gather after ops that can work on shards, where that costs no more."""

    name = "sink-gathers"

    def improve_at(self, reshard: GraphOp, graph: FunctionGraph) -> bool:
        """Move a gather down. One that is also a reduction reduces first."""
        if reshard.name == "mesh.local_split":
            return False  # nothing is gathered
        source, target = sources(reshard, graph)
        if source.split_axes == target.split_axes or not set(target.partial) <= set(source.partial):
            return False
        shards = source.with_partial(target.partial, target.reduction)
        return move_past(reshard, shards, graph)
