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

from shard_dialect.model import AllSlice, Sharding
from shard_dialect.passes.optimize.change_op_sharding import Change, Resharder
from shard_dialect.passes.optimize.collective_pass import CollectivePass
from shard_dialect.passes.optimize.find_op_shardings import OpShardingFinder
from shard_dialect.passes.optimize.function_graph import FunctionGraph
from shard_dialect.passes.optimize.graph_elements import GraphOp


@dataclass(frozen=True)
class ComputeOnSlices(CollectivePass):
    """Compute on a slice where only a slice is used."""

    name = "compute-on-slices"

    def improve_at(self, reshard: GraphOp, graph: FunctionGraph) -> bool:
        """Give the op before a slice the sharding of the slice, if that is cheaper."""
        collective = graph.collective_of(reshard)
        value = reshard.operands[0]
        op = value.owner if value is not None else None
        is_slice = all(isinstance(step, AllSlice) for step in collective.steps)
        if value is None or op is None or not is_slice:
            return False
        if op.is_reshard or op.block is not reshard.block:
            return False
        return _reshard_op(op, op.results.index(value), collective.target, graph)


def _reshard_op(op: GraphOp, number: int, target: Sharding, graph: FunctionGraph) -> bool:
    grid = graph.shardings.grid(target.grid)
    finder, resharder = OpShardingFinder(graph), Resharder(graph, grid)
    now, then = finder.now(op, grid), finder.with_result(op, number, target, grid)
    if now is None or then is None:
        return False
    change = resharder.operands_change(op, now, then)
    for result, sharding in zip(op.results, then.results, strict=True):
        if sharding is not None:
            change = change.plus(Change(resharder.bytes_out(result, sharding)))
    if not change.is_better:
        return False
    resharder.do(op, then)
    resharder.finish(op, now)
    return True
