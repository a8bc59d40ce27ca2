"""Make communication cheaper: apply all rewrites of collectives until nothing changes.

These are `--fold-collectives`, `--share-collectives`, `--sink-reductions`,
`--sink-gathers`, `--raise-gathers`, `--exchange-gathers`, `--reduce-to-pieces`,
`--compute-on-slices` and `--compute-halos`, which are documented at their own flags. None makes a
program more expensive: each rewrite lowers the bytes moved, then the arithmetic of each device,
then the number of steps.

Shardings are read from types only: no rewrite assumes a tensor to be replicated unless its type
states it.

`--share-collectives` replaces equal reshards of one value by the first of them.

    %1 = "mesh.all_gather"(%0)
    %2 = "mesh.all_gather"(%0)      is %1

`--fold-collectives` replaces two consecutive reshards by one from the first source to the last
target.

    %1 = "mesh.all_reduce"(%0)      [[], [], [0]] -> [[], []]
    %2 = "mesh.local_split"(%1)     [[], []]      -> [[], [0]]
      becomes
    %2 = "mesh.reduce_scatter"(%0)  [[], [], [0]] -> [[], [0]]

So consecutive all-reduces over different axes become one, a slice cancels the gather before it, and
all-to-alls, permutations and masks cancel their inverses.

`--sink-reductions` moves reductions down past linear ops, which can work on partial values.

    %2 = "mesh.all_reduce"(%0)
    %3 = "mesh.all_reduce"(%1)
    %4 = arith.addf %2, %3
      becomes
    %2 = arith.addf %0, %1          partial like its operands
    %4 = "mesh.all_reduce"(%2)

Such ops are sums, differences, scalings, products with a value that is not partial, transposes,
reshapes, slices, sums over dimensions, and maxima of maxima (`ops.partial_values`). All-reduces
and reduce-scatters move likewise. An operand that is added and not partial is masked, so that one
device adds it. For example, the gradient of a norm's scale then reduces a row instead of an
activation. An op that is not linear, such as an exponential or a product of two partial sums, still
gets reduced operands. (RFC, all-reduce reassociation.)

`--sink-gathers` moves gathers down past ops that can work on shards, to where the gathered data is
smallest.

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

`--raise-gathers` moves gathers up before the op that makes their operand, where less data is
gathered there.

    %1 = stablehlo.broadcast_in_dim %0      [[0]] -> [[0], []]
    %2 = "mesh.all_gather"(%1)              [[0], []] -> [[], []]
      becomes
    %1 = "mesh.all_gather"(%0)              [[0]] -> [[]]
    %2 = stablehlo.broadcast_in_dim %1

Each device then computes the op on more of the tensor. The arithmetic of a product counts as bytes,
as it does where shardings are chosen. Where one op alone saves nothing, such as a reshape, the
gather moves up past it and the ops before it; those whose results others read, too, are computed a
second time, if they are small beside what is saved.

`--exchange-gathers` splits another dimension of a tensor instead of gathering it, and computes on
the shards.

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

`--reduce-to-pieces` splits an all-reduce into a reduce-scatter and an all-gather, with the ops in
between on shards.

    %1 = "mesh.all_reduce"(%0)      [[], [], [0]] -> [[], []]
    %2 = math.exp %1
      becomes
    %1 = "mesh.reduce_scatter"(%0)  [[], [], [0]] -> [[0], []]
    %2 = math.exp %1                half the work on two devices
    %3 = "mesh.all_gather"(%2)      [[0], []] -> [[], []]

Both move the same bytes, so the all-reduce stays where no op can work on shards, or where the
devices divide no dimension of the tensor. (arXiv 2211.05102, section 3.2.2; RFC, walkthrough of the
2-D weight stationary MLP.)

`--join-pieces`, which is not among these rewrites, makes one all-reduce of the two again where it
computes few elements more for each collective that it saves: it takes a fixed time to begin one. A
partition for XLA has it last.

`--compute-on-slices` computes an op on a slice if only that slice of its replicated result is used.

    %1 = math.exp %0                [[], []]
    %2 = "mesh.local_split"(%1)     [[], []] -> [[0], []]
      becomes
    %1 = "mesh.local_split"(%0)
    %2 = math.exp %1                half the work on two devices

Slices move up, op by op. They do not move past an op whose other users read the unsharded result,
which would have to be gathered, nor past one whose shards depend on other shards (a reversal).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import cycle

from shard_dialect.collectives import AllSlice
from shard_dialect.ir.bindings import ir
from shard_dialect.model import Grid, Sharding, ShardingError
from shard_dialect.model.sharding import Shape
from shard_dialect.passes.framework.base import Pass, needs
from shard_dialect.passes.framework.options import ObjectiveOptions
from shard_dialect.passes.optimize.change_op_sharding import (
    FewerSteps,
    Resharder,
    reshard_before,
)
from shard_dialect.passes.optimize.compute_halos import ComputeHalos
from shard_dialect.passes.optimize.graph import FunctionGraph, GraphOp, InsertionPoint, write_graph
from shard_dialect.passes.optimize.move_reshard import (
    FEW,
    MOST,
    CollectivePass,
    move_before,
    move_past,
    read_graphs,
    sources,
)


@dataclass(frozen=True)
class ShareCollectives(CollectivePass):
    """Replace equal reshards of one value by one."""

    name = "share-collectives"

    def improve_at(self, reshard: GraphOp, graph: FunctionGraph) -> bool:
        """Use the first equal reshard of the block instead of later ones."""
        source = reshard.operands[0]
        assert source is not None, "a reshard has one operand, a tensor"
        equal = [
            user
            for user in graph.users(source)
            if user.is_reshard and user.block is reshard.block and _does_the_same(user, reshard)
        ]
        if len(equal) < 2:
            return False
        first = min(equal, key=lambda op: op.position)
        for op in equal:
            if op is not first:
                graph.replace_all_uses(op.results[0], first.results[0])
        return True


def _does_the_same(a: GraphOp, b: GraphOp) -> bool:
    if a is b:
        return True
    is_alike = a.name == b.name and a.attributes == b.attributes
    return is_alike and a.results[0].sharding == b.results[0].sharding


@dataclass(frozen=True)
class FoldCollectives(CollectivePass):
    """Plan consecutive reshards as one."""

    name = "fold-collectives"

    def improve_at(self, reshard: GraphOp, graph: FunctionGraph) -> bool:
        """Plan a reshard and the one before it as one, if that is cheaper or shorter."""
        between = reshard.operands[0]
        before = reshard_before(reshard, between) if between is not None else None
        value = before.operands[0] if before is not None else None
        if between is None or before is None or value is None:
            return False
        first, second = graph.collective_of(before), graph.collective_of(reshard)
        resharder = Resharder(graph, graph.shardings.grid(first.source.grid))
        direct = resharder.plan(value, first.source, second.target)
        total, steps = resharder.price_of(reshard), len(second.steps)
        if graph.is_only_for(between, reshard):
            total += resharder.price_of(before)
            steps += len(first.steps)
        if (direct.cost, len(direct.steps)) >= (total, steps):
            return False
        at = InsertionPoint.at(reshard)
        folded = resharder.write(value, first.source, second.target, at)
        graph.replace_all_uses(reshard.results[0], folded)
        return True


@dataclass(frozen=True)
class SinkReductions(CollectivePass):
    """Reduce after linear ops, where there is less to reduce."""

    name = "sink-reductions"

    narrow: bool = False
    """Let a conversion to narrower floats round partial sums before they are reduced."""

    def improve_at(self, reshard: GraphOp, graph: FunctionGraph) -> bool:
        """Move a reduction down: in the source sharding, or partial in the target's split."""
        source, target = sources(reshard, graph)
        if not set(source.partial) - set(target.partial):
            return False
        candidates = [source]
        with suppress(ShardingError):  # of a reduce-scatter: the axes split the result
            candidates.append(target.with_partial(source.partial, source.reduction))
        return any(
            move_past(reshard, candidate, graph, narrow=self.narrow)
            for candidate in dict.fromkeys(candidates)
        )


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


@dataclass(frozen=True)
class RaiseGathers(CollectivePass):
    """Gather before an op whose operands are smaller than its results."""

    name = "raise-gathers"

    def improve_at(self, reshard: GraphOp, graph: FunctionGraph) -> bool:
        """Give the op before a reshard the sharding after it, if that moves fewer bytes."""
        return reshard.name != "mesh.local_split" and move_before(reshard, graph)


LARGEST = 64
"""The largest number of ops after a gather that are changed: attention and its gradient are 45."""


@dataclass(frozen=True)
class ExchangeGathers(CollectivePass):
    """Split another dimension instead of gathering one, where that costs less."""

    name = "exchange-gathers"

    def improve_at(self, reshard: GraphOp, graph: FunctionGraph) -> bool:
        """Exchange instead of gathering, along the first dimension for which this is cheaper."""
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
    """Whether all tensors of `op`, but scalars, have dimension `dim` of the result of `reshard`."""
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
    # A gather removes minor axes: of [0, 1] -> [0], axis 1 is free to split another dimension.
    kept, axes = target.split_axes[dims[0]], source.split_axes[dims[0]]
    if axes[: len(kept)] != kept:
        return
    for dim, size in enumerate(shape):
        split = (*target.split_axes[dim], *axes[len(kept) :])
        if dim != dims[0] and size % grid.axes_size(split) == 0:
            split_axes = (*target.split_axes[:dim], split, *target.split_axes[dim + 1 :])
            yield dim, replace(target, split_axes=split_axes)


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


@dataclass(frozen=True)
class JoinPieces(CollectivePass):
    """Reduce to the whole where that takes fewer collectives, and ops compute little more."""

    name = "join-pieces"

    def improve_at(self, reshard: GraphOp, graph: FunctionGraph) -> bool:
        """Make a reduce-scatter an all-reduce, and let ops up to the gathers compute all of it."""
        source, target = sources(reshard, graph)
        axes = set(source.partial) - set(target.partial)
        split = tuple(tuple(each for each in dim if each not in axes) for dim in target.split_axes)
        if not axes or split == target.split_axes or target.offsets or target.halos:
            return False
        whole = replace(target, split_axes=split)
        return move_past(reshard, whole, graph, prices=FewerSteps)


@dataclass(frozen=True)
class ComputeOnSlices(CollectivePass):
    """Compute on a slice where only a slice is used."""

    name = "compute-on-slices"

    def improve_at(self, reshard: GraphOp, graph: FunctionGraph) -> bool:
        """Give the op before a slice the sharding of the slice, if that is cheaper."""
        collective = graph.collective_of(reshard)
        is_slice = all(isinstance(step, AllSlice) for step in collective.steps)
        return is_slice and move_before(reshard, graph)


@needs(forms=("distributed",))
@dataclass(frozen=True)
class RewriteCollectives(ObjectiveOptions, Pass):
    """Replace collectives by cheaper ones, and compute on shards before gathering them."""

    name = "rewrite-collectives"

    narrow: bool = False
    """Let a conversion to narrower floats round partial sums before they are reduced."""

    def rewrite(self, module: ir.Operation) -> None:
        """Apply all rewrites to each function until none changes anything."""
        rewrites = (
            ShareCollectives(),
            FoldCollectives(),
            SinkReductions(self.narrow),
            SinkGathers(),
            RaiseGathers(),
            ExchangeGathers(),
            ReduceToPieces(),
            ComputeOnSlices(),
            ComputeHalos(),
        )
        for graph in read_graphs(module, self.prices()):
            _until_nothing_changes(rewrites, graph)
            write_graph(graph)


def _until_nothing_changes(rewrites: Sequence[CollectivePass], graph: FunctionGraph) -> None:
    """Apply the rewrites in turn, until each has seen the graph as it is and left it so.

    Ends, too, where the graph is as it was after an earlier turn: two rewrites that each take their
    own result for the better one would otherwise undo each other without end.
    """
    unchanged = 0
    states: dict[CollectivePass, set[int]] = {each: set() for each in rewrites}
    for number, each in enumerate(cycle(rewrites)):
        # 1, not 0: a rewrite ends where it helps no more, so it has left the graph as it saw it.
        unchanged = 1 if each.improve(graph) else unchanged + 1
        if unchanged >= len(rewrites) or number >= MOST * len(rewrites):
            return
        if unchanged == 1 and number >= FEW * len(rewrites):
            state = graph.state()
            if state in states[each]:
                return
            states[each].add(state)
