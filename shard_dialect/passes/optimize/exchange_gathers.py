"""Exchange a tensor between dimensions instead of gathering it, and compute on what that splits.

    %k1 = "mesh.all_gather"(%k)                    [[], [0], [], []] -> [[], [], [], []]
    %s = stablehlo.dot_general %q, %k1             rows of %q on each device
      becomes
    %q1 = "mesh.all_to_all"(%q)                    [[], [0], [], []] -> [[], [], [0], []]
    %k1 = "mesh.all_to_all"(%k)
    %s = stablehlo.dot_general %q1, %k1            some heads on each device

An exchange moves n times less than a gather on n devices. The ops after it, up to 64 of them, have
the other dimension split instead, so that more tensors are exchanged: those that they read, and the
results. This is done where all of it moves fewer bytes, as in attention along a split sequence. The
other dimension is one that all operands and results of an op have: a batch dimension of a product,
say, since otherwise the op's other operand would have to be gathered.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from shard_dialect.model import Grid, Sharding
from shard_dialect.model.sharding import Shape
from shard_dialect.passes.optimize.collective_pass import CollectivePass, sources
from shard_dialect.passes.optimize.graph.function_graph import FunctionGraph
from shard_dialect.passes.optimize.graph.graph_elements import GraphOp
from shard_dialect.passes.optimize.move_reshard import move_past

LARGEST = 64
"""The largest number of ops after a gather that are changed: attention and its gradient are 45."""


@dataclass(frozen=True)
class ExchangeGathers(CollectivePass):
    """Split another dimension instead of gathering one, where that costs less."""

    name = "exchange-gathers"

    def improve_at(self, reshard: GraphOp, graph: FunctionGraph) -> bool:
        """Exchange what `reshard` gathers, in the first dimension for which this is cheaper."""
        source, target = sources(reshard, graph)
        shape = reshard.results[0].kind.shape
        if reshard.name == "mesh.local_split" or shape is None or source.partial != target.partial:
            return False
        if source.grid != target.grid:
            return False
        grid = graph.shardings.grid(source.grid)
        return any(
            move_past(reshard, exchanged, graph, largest=LARGEST)
            for dim, exchanged in _exchanged(source, target, shape, grid)
            if any(_have_all(user, reshard, dim, graph) for user in graph.users(reshard.results[0]))
        )


def _have_all(op: GraphOp, reshard: GraphOp, dim: int, graph: FunctionGraph) -> bool:
    """Whether all tensors of `op`, but scalars, have dimension `dim` of what `reshard` makes."""
    rule = None if op.is_reshard or op.block is None else graph.kind_of(op).rule
    dims = rule.operands[op.operands.index(reshard.results[0])] if rule is not None else None
    if rule is None or dims is None or len(dims[dim]) != 1:
        return False
    (factor,) = dims[dim]
    tensors = [each for each in (*rule.operands, *rule.results) if each]
    return factor not in rule.unsplit and all((factor,) in each for each in tensors)


def _exchanged(
    source: Sharding, target: Sharding, shape: Shape, grid: Grid
) -> Iterator[tuple[int, Sharding]]:
    """Each other dimension that the gathered axes divide, and `target` with them there."""
    dims = [dim for dim in range(source.rank) if source.split_axes[dim] != target.split_axes[dim]]
    if len(dims) != 1 or source.offsets or source.halos or target.offsets or target.halos:
        return
    kept, axes = target.split_axes[dims[0]], source.split_axes[dims[0]]
    if axes[: len(kept)] != kept:
        return
    for dim, size in enumerate(shape):
        split = (*target.split_axes[dim], *axes[len(kept) :])
        if dim != dims[0] and size % grid.axes_size(split) == 0:
            split_axes = (*target.split_axes[:dim], split, *target.split_axes[dim + 1 :])
            yield dim, replace(target, split_axes=split_axes)
