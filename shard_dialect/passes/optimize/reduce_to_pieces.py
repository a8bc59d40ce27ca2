"""An all-reduce is a reduce-scatter and an all-gather, and what comes in between works on shards.

    %1 = "mesh.all_reduce"(%0)      [[], [], [0]] -> [[], []]
    %2 = math.exp %1
      becomes
    %1 = "mesh.reduce_scatter"(%0)  [[], [], [0]] -> [[0], []]
    %2 = math.exp %1                half the work on two devices
    %3 = "mesh.all_gather"(%2)      [[0], []] -> [[], []]

At the same bytes, so where no op can work on shards, or none of its dimensions divides, the
all-reduce stays. (arXiv 2211.05102, section 3.2.2; RFC, walkthrough of the 2-D weight stationary
MLP.)
"""

from __future__ import annotations

from dataclasses import dataclass

from shard_dialect.ir.bindings import ir
from shard_dialect.ir.mesh.sharding_attributes import Shardings
from shard_dialect.passes.optimize.move_reshard import move_past
from shard_dialect.passes.optimize.rewrite_reshards import CollectivePass, sources


@dataclass(frozen=True)
class ReduceToPieces(CollectivePass):
    """Reduce to shards what can be worked on in shards, and gather later."""

    name = "reduce-to-pieces"

    def improve_at(self, reshard: ir.Operation, shardings: Shardings) -> bool:
        """Scatter what an all-reduce makes along the dimension that leaves most whole."""
        source, target = sources(reshard)
        axes = tuple(axis for axis in source.partial if axis not in target.axes)
        if not axes:
            return False
        # A dimension that is split already first: the other ones stay whole for their readers.
        dims = sorted(range(target.rank), key=lambda dim: not target.split_axes[dim])
        return any(
            move_past(reshard, target.with_dim(dim, target.split_axes[dim] + axes), shardings)
            for dim in dims
        )
