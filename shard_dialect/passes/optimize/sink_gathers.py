"""Gathers move down, to where the data is smallest.

    %1 = "mesh.all_gather"(%0)      [[], [0]] -> [[], []]
    %2 = arith.maximumf %1, %z
      becomes
    %1 = "mesh.local_split"(%z)     free
    %2 = arith.maximumf %0, %1      half the work on two devices
    %3 = "mesh.all_gather"(%2)

What can work on shards does, by its sharding rule, and its result is gathered; or reduced, where it
sums up along the shards. Of up to 16 ops behind the gather as many are passed as move the fewest
bytes, of equals with the least work. It stays in front of what needs all elements (a sort), and of
what makes more bytes of them. (RFC, moving an all-gather down.)
"""

from __future__ import annotations

from dataclasses import dataclass

from shard_dialect.ir.bindings import ir
from shard_dialect.ir.mesh.sharding_attributes import Shardings
from shard_dialect.passes.optimize.move_reshard import move_past
from shard_dialect.passes.optimize.rewrite_reshards import CollectivePass, sources


@dataclass(frozen=True)
class SinkGathers(CollectivePass):
    """Gather after ops that can work on shards, where that is no dearer."""

    name = "sink-gathers"

    def improve_at(self, reshard: ir.Operation, shardings: Shardings) -> bool:
        """Move a gather down. One that is also a reduction reduces first."""
        if reshard.name == "mesh.local_split":
            return False  # nothing is gathered
        source, target = sources(reshard)
        if source.split_axes == target.split_axes or not set(target.partial) <= set(source.partial):
            return False
        shards = source.with_partial(target.partial, target.reduction)
        return move_past(reshard, shards, shardings)
