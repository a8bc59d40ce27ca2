"""Work that every device repeats is done on pieces.

*Reduce to pieces*: an all-reduce is a reduce-scatter and an all-gather, at the same bytes, and what
comes in between works on pieces. (arXiv 2211.05102, section 3.2.2; RFC, walkthrough of the 2-D
weight stationary MLP.)

    %1 = "mesh.all_reduce"(%0)      [[], [], [0]] -> [[], []]
    %2 = math.exp %1
      becomes
    %1 = "mesh.reduce_scatter"(%0)  [[], [], [0]] -> [[0], []]
    %2 = math.exp %1
    %3 = "mesh.all_gather"(%2)      [[0], []] -> [[], []]

*Compute on slices*: an op of which a slice is used works on slices.

    %1 = math.exp %0                [[], []]
    %2 = "mesh.local_split"(%1)     [[], []] -> [[0], []]
      becomes
    %1 = "mesh.local_split"(%0)
    %2 = math.exp %1
"""

from __future__ import annotations

from dataclasses import dataclass

from shard_dialect.ir.bindings import ir
from shard_dialect.ir.collectives import read_collective
from shard_dialect.ir.mesh import is_reshard
from shard_dialect.ir.shardings import Shardings
from shard_dialect.model import AllSlice, Sharding
from shard_dialect.passes.collectives.lay import Layer
from shard_dialect.passes.collectives.relay import Relay
from shard_dialect.passes.collectives.rewrite import CollectivePass, move_past, sources


@dataclass(frozen=True)
class ReduceToPieces(CollectivePass):
    """Reduce to pieces what can be worked on in pieces, and gather later."""

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


@dataclass(frozen=True)
class ComputeOnSlices(CollectivePass):
    """Work on a slice where only a slice is used."""

    name = "compute-on-slices"

    def improve_at(self, reshard: ir.Operation, shardings: Shardings) -> bool:
        """Lay the op before a slice as the slice lies."""
        found = read_collective(reshard)
        value = reshard.operands[0]
        if isinstance(value.owner, ir.Block) or not _slices(reshard):
            return False
        op = value.owner.operation
        if is_reshard(op) or op.block != reshard.block:
            return False
        return _lay_as(op, list(op.results).index(value), found.target, shardings)


def _slices(reshard: ir.Operation) -> bool:
    return all(isinstance(step, AllSlice) for step in read_collective(reshard).steps)


def _lay_as(op: ir.Operation, number: int, target: Sharding, shardings: Shardings) -> bool:
    grid = shardings.grid(target.grid)
    layer, relay = Layer(shardings), Relay(shardings, grid)
    now, then = layer.now(op, grid), layer.with_result(op, number, target, grid)
    if now is None or then is None:
        return False
    change = relay.operands_change(op, now, then, None) + relay.results_change(op, then)
    if not change.is_better:
        return False
    relay.do(op, then)
    relay.finish(op, list(now.results))
    return True
