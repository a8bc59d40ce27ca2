"""What is computed on every device, and of which a slice is used, is computed on the slice.

    %1 = math.exp %0                [[], []]
    %2 = "mesh.local_split"(%1)     [[], []] -> [[0], []]
      becomes
    %1 = "mesh.local_split"(%0)
    %2 = math.exp %1                half the work on two devices

So slices move up, op by op. Not past an op of which others use the whole, as it would have to be
gathered, nor past one whose shards are made of other shards (a reversal).
"""

from __future__ import annotations

from dataclasses import dataclass

from shard_dialect.ir.bindings import ir
from shard_dialect.ir.mesh.mesh_collectives import read_collective
from shard_dialect.ir.mesh.mesh_dialect import is_reshard
from shard_dialect.ir.mesh.sharding_attributes import Shardings
from shard_dialect.model import AllSlice, Sharding
from shard_dialect.passes.optimize.op_sharding import OpShardingFinder
from shard_dialect.passes.optimize.resharded_ops import Change, Resharder
from shard_dialect.passes.optimize.rewrite_reshards import CollectivePass


@dataclass(frozen=True)
class ComputeOnSlices(CollectivePass):
    """Work on a slice where only a slice is used."""

    name = "compute-on-slices"

    def improve_at(self, reshard: ir.Operation, shardings: Shardings) -> bool:
        """Lay the op before a slice as the slice lies."""
        found = read_collective(reshard)
        value = reshard.operands[0]
        is_slice = all(isinstance(step, AllSlice) for step in found.steps)
        if isinstance(value.owner, ir.Block) or not is_slice:
            return False
        op = value.owner.operation
        if is_reshard(op) or op.block != reshard.block:
            return False
        return _lay_as(op, list(op.results).index(value), found.target, shardings)


def _lay_as(op: ir.Operation, number: int, target: Sharding, shardings: Shardings) -> bool:
    grid = shardings.grid(target.grid)
    layer, relay = OpShardingFinder(shardings), Resharder(shardings, grid)
    now, then = layer.now(op, grid), layer.with_result(op, number, target, grid)
    if now is None or then is None:
        return False
    change = relay.operands_change(op, now, then)
    for result, made in zip(op.results, then.results, strict=True):
        if made is not None:
            change += Change(relay.bytes_out(result, made))
    if not change.is_better:
        return False
    relay.do(op, then)
    relay.finish(op, now)
    return True
