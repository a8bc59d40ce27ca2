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

from shard_dialect.ir.bindings import ir
from shard_dialect.ir.mesh.mesh_collectives import read_collective
from shard_dialect.ir.mesh.mesh_dialect import is_reshard
from shard_dialect.ir.mesh.sharding_attributes import Shardings
from shard_dialect.model import AllSlice, Sharding
from shard_dialect.passes.optimize.change_op_sharding import Change, Resharder
from shard_dialect.passes.optimize.collective_pass import CollectivePass
from shard_dialect.passes.optimize.op_sharding import OpShardingFinder


@dataclass(frozen=True)
class ComputeOnSlices(CollectivePass):
    """Compute on a slice where only a slice is used."""

    name = "compute-on-slices"

    def improve_at(self, reshard: ir.Operation, shardings: Shardings) -> bool:
        """Give the op before a slice the sharding of the slice, if that is cheaper."""
        collective = read_collective(reshard)
        value = reshard.operands[0]
        is_slice = all(isinstance(step, AllSlice) for step in collective.steps)
        if isinstance(value.owner, ir.Block) or not is_slice:
            return False
        op = value.owner.operation
        if is_reshard(op) or op.block != reshard.block:
            return False
        return _reshard_op(op, list(op.results).index(value), collective.target, shardings)


def _reshard_op(op: ir.Operation, number: int, target: Sharding, shardings: Shardings) -> bool:
    grid = shardings.grid(target.grid)
    finder, resharder = OpShardingFinder(shardings), Resharder(shardings, grid)
    now, then = finder.now(op, grid), finder.with_result(op, number, target, grid)
    if now is None or then is None:
        return False
    change = resharder.operands_change(op, now, then)
    for result, sharding in zip(op.results, then.results, strict=True):
        if sharding is not None:
            change += Change(resharder.bytes_out(result, sharding))
    if not change.is_better:
        return False
    resharder.do(op, then)
    resharder.finish(op, now)
    return True
