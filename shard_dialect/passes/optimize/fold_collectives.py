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

from shard_dialect.ir.bindings import ir
from shard_dialect.ir.mesh.mesh_collectives import read_collective, write_steps
from shard_dialect.ir.mesh.sharding_attributes import Shardings
from shard_dialect.ir.numbered_function import itemsize
from shard_dialect.passes.optimize.change_op_sharding import is_only_for, reshard_before
from shard_dialect.passes.optimize.collective_pass import CollectivePass
from shard_dialect.planner import bytes_moved, plan


@dataclass(frozen=True)
class FoldCollectives(CollectivePass):
    """Plan consecutive reshards as one."""

    name = "fold-collectives"

    def improve_at(self, reshard: ir.Operation, shardings: Shardings) -> bool:
        """Plan a reshard and the one before it as one, if that is cheaper or shorter."""
        before = reshard_before(reshard, reshard.operands[0])
        if before is None:
            return False
        first, second = read_collective(before), read_collective(reshard)
        value = before.operands[0]
        shape, size = tuple(value.type.shape), itemsize(value.type.element_type)
        grid = shardings.grid(first.source.grid)
        direct = plan(first.source, second.target, shape, size, grid, False)
        total_bytes = bytes_moved(second.steps, second.source, shape, size, grid)
        steps = len(second.steps)
        if is_only_for(before.results[0], reshard):
            total_bytes += bytes_moved(first.steps, first.source, shape, size, grid)
            steps += len(first.steps)
        if (direct.bytes_moved, len(direct.steps)) >= (total_bytes, steps):
            return False
        with ir.InsertionPoint(reshard), reshard.location:
            value = write_steps(direct.steps, value, first.source, shardings)
        reshard.results[0].replace_all_uses_with(value)
        return True
