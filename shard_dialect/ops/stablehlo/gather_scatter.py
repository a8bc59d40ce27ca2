"""StableHLO ops that read or write at given indices.

    gather rows of [v, d]          ([a, b], [c, d, e]) -> ([c, d, b]) reduction={a: sum} whole={e}

In a dimension that slices take in full, indices are clamped to 0, so slices of a shard are full
too. In a dimension of which slices have one element, each device reads or writes its own shard
(`partition_gather_scatter`): it reads zeros for other devices' elements. Other dimensions are
whole.

On shards each device reads and writes the indices in its own shard:

    %1 = gather(%table, %ids)         table<8x4>, of which a device has 2x4 from row %begin on

becomes

    %1 = clamp(0, %ids, 7)            the index that StableHLO reads if it is out of bounds
    %2 = subtract %1, %begin          the index in this shard
    %3 = clamp(0, %2, 1)
    %4 = compare EQ, %2, %3           is it in this shard?
    %5 = gather(%shard, %3)
    %6 = select %4, %5, 0             zero for another device's rows: a partial sum

All index arithmetic is on signed 64-bit integers, since an index type of 8 bits may not hold the
offsets.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Literal

from shard_dialect.ir.bindings import ir, submodule
from shard_dialect.ir.building import stablehlo as hlo
from shard_dialect.model import ShardingRule
from shard_dialect.model.sharding import Shape
from shard_dialect.ops.factors import Factors, Kind, Query
from shard_dialect.ops.op_record import Later, OpRecord
from shard_dialect.ops.padding import anything, identities_of_updates
from shard_dialect.ops.partial_values import PartialQuery, moves
from shard_dialect.ops.partitioned_op import PartitionedOp, Shard
from shard_dialect.ops.scalar_functions import Trait
from shard_dialect.ops.stablehlo import arithmetic
from shard_dialect.ops.stablehlo.attribute_reading import numbers
from shard_dialect.ops.stablehlo.facets import expansion, python, sample
from shard_dialect.ops.stablehlo.reduction_rules import combiner, is_additive


@dataclass(frozen=True)
class Numbers:
    """The dimension numbers that `gather` and `scatter` share.

    Both read or write *slices* of the *operand* at given *indices*.
    """

    window: Sequence[int]
    """The dimensions of the slices that are dimensions of the operand, in its order."""
    dropped: Sequence[int]
    """The operand's dimensions that slices do not have, since their size in a slice is 1."""
    batching: Sequence[int]
    """The operand's dimensions that correspond to `indices_batching` of the indices."""
    indices_batching: Sequence[int]
    indexed: Sequence[int]
    """The operand's dimension for each component of an index."""
    index_vector: int
    """The dimension of the indices that holds the components of an index."""

    @classmethod
    def of_gather(cls, op: ir.Operation) -> Numbers:
        """The dimension numbers of a `gather`."""
        dims = numbers(op, "dimension_numbers", "GatherDimensionNumbers")
        return cls(
            dims.offset_dims,
            dims.collapsed_slice_dims,
            dims.operand_batching_dims,
            dims.start_indices_batching_dims,
            dims.start_index_map,
            dims.index_vector_dim,
        )

    @classmethod
    def of_scatter(cls, op: ir.Operation) -> Numbers:
        """The dimension numbers of a `scatter`."""
        dims = numbers(op, "scatter_dimension_numbers", "ScatterDimensionNumbers")
        return cls(
            dims.update_window_dims,
            dims.inserted_window_dims,
            dims.input_batching_dims,
            dims.scatter_indices_batching_dims,
            dims.scattered_dims_to_operand_dims,
            dims.index_vector_dim,
        )

    def attribute(self, kind: Literal["Gather", "Scatter"]) -> ir.Attribute:
        """The attribute of a `gather` or a `scatter`."""
        dialect = submodule("_mlir_libs._stablehlo")
        return getattr(dialect, f"{kind}DimensionNumbers").get(
            self.window,
            self.dropped,
            self.batching,
            self.indices_batching,
            self.indexed,
            self.index_vector,
        )

    def windows(self, rank: int) -> dict[int, int]:
        """From the dimensions of the slices in `window` to those of the operand, of rank `rank`."""
        kept = [dim for dim in range(rank) if dim not in (*self.dropped, *self.batching)]
        return dict(zip(self.window, kept, strict=True))

    def batches(self, slices: Shape, indices: Shape) -> dict[int, tuple[int | None, int]]:
        """From the other dimensions of the slices to the operand's (or `None`) and the indices'."""
        of_indices = [dim for dim in range(len(indices)) if dim != self.index_vector]
        of_slices = [dim for dim in range(len(slices)) if dim not in self.window]
        of_operand = dict(zip(self.indices_batching, self.batching, strict=True))
        return {
            dim: (of_operand.get(other), other)
            for dim, other in zip(of_slices, of_indices, strict=True)
        }


def gather(query: Query) -> ShardingRule | None:
    """The rule of a gather: a looked-up dimension is a sum, to which other shards add zeros."""
    factors = Factors(query)
    (operand, indices), slices = factors.operands, factors.results[0]
    dims = Numbers.of_gather(query.op)
    can_be_split = is_additive(query.op.results[0].type.element_type)
    looked_up: Collection[int] = dims.indexed if can_be_split else ()

    def add_looked_up(dim: int) -> None:
        factors.add(operand[dim], (dim,), (), "sum" if dim in looked_up else "need_replication")

    windows, batches = dims.windows(len(operand)), dims.batches(slices, indices)
    for dim, size in enumerate(slices):
        if dim in batches:
            factors.add(size, batches[dim], (dim,))
        elif operand[windows[dim]] == size:
            factors.add(size, (windows[dim],), (dim,))
        elif size == 1:
            add_looked_up(windows[dim])
            factors.add(size, (), (dim,), "need_replication")
        else:
            factors.add(
                operand[windows[dim]], (windows[dim],), (dim,), "need_replication", blocked=True
            )
    for dim in dims.dropped:
        add_looked_up(dim)
    if dims.index_vector < len(indices):
        factors.add(indices[dims.index_vector], (None, dims.index_vector), (), "need_replication")
    return factors.rule()


def scatter(query: Query) -> ShardingRule | None:
    """The rule of a scatter, the inverse of `gather`: several devices may add updates.

    The operands that updates are added to are `inits`, counted once.
    """
    factors = Factors(query)
    count = len(factors.results)
    operand, indices, slices = (factors.operands[number] for number in (0, count, count + 1))
    scatter_dims = Numbers.of_scatter(query.op)
    windows, batches = scatter_dims.windows(len(operand)), scatter_dims.batches(slices, indices)
    joined = combiner(query.op, count)

    def add(
        size: int, of_operand: int | None, of_indices: int | None, of_slices: int | None, kind: Kind
    ) -> None:
        dims = (*[of_operand] * count, of_indices, *[of_slices] * count)
        factors.add(size, dims, [of_operand] * count, kind)

    for dim, size in enumerate(slices):
        if dim in batches:
            of_operand, of_indices = batches[dim]
            kind: Kind = joined or "need_replication" if of_operand is None else "passed"
            add(size, of_operand, of_indices, dim, kind)
            continue
        of_operand = windows[dim]
        if operand[of_operand] == size:
            # An index past 0 would push a part of the slice over the edge.
            is_moved = of_operand in scatter_dims.indexed
            add(size, of_operand, None, dim, "need_replication" if is_moved else "passed")
        else:
            is_one = size == 1 and of_operand in scatter_dims.indexed
            kind = "passed" if is_one else "need_replication"
            add(operand[of_operand], of_operand, None, None, kind)
            add(size, None, None, dim, "need_replication")
    for dim in scatter_dims.dropped:
        add(
            operand[dim],
            dim,
            None,
            None,
            "passed" if dim in scatter_dims.indexed else "need_replication",
        )
    if scatter_dims.index_vector < len(indices):
        add(
            indices[scatter_dims.index_vector],
            None,
            scatter_dims.index_vector,
            None,
            "need_replication",
        )
    return factors.rule(inits=tuple(range(count)) if joined else ())


def combines(query: PartialQuery) -> frozenset[int] | None:
    """For a scatter that combines by the reduction of the partial values: both tensors."""
    is_alike = len(query.op.results) == 1 and combiner(query.op, 1) == query.reduction
    return frozenset({0, 2}) if is_alike and query.numbers <= {0, 2} else None


_SIGNED_STARTS = expansion("gather_scatter_loops:signed_starts")
RECORDS: dict[str, OpRecord] = {
    "gather": OpRecord(
        gather,
        sample=sample("gather"),
        partition=Later("ops.stablehlo.gather_scatter:partition_gather"),
        padding=anything,
        partial=moves,
        lowering=expansion("gather_scatter_loops:gather"),
        python=python("gather", "indexed_access"),
        traits=Trait.SLICES,
    ),
    "scatter": OpRecord(
        scatter,
        sample=sample("scatter"),
        partition=Later("ops.stablehlo.gather_scatter:partition_scatter"),
        padding=identities_of_updates,
        partial=combines,
        lowering=_SIGNED_STARTS,
        loops=expansion("gather_scatter_loops:scatter"),
        operations=arithmetic.scatter,
        python=python("scatter", "indexed_access"),
        traits=Trait.BY_NEIGHBOURS,
    ),
}


def partition_gather(partitioned: PartitionedOp) -> None:
    """Set local slice sizes, and read zeros for indices outside of this device's shard."""
    op, source, dims = partitioned.op, partitioned.operand(0), Numbers.of_gather(partitioned.op)
    before = list(op.attributes["slice_sizes"])
    sizes = before.copy()
    for dim, of_operand in dims.windows(len(sizes)).items():
        sizes[of_operand] = partitioned.result.shape[dim]
    op.attributes["slice_sizes"] = ir.DenseI64ArrayAttr.get(sizes)
    split = [dim for dim in dims.indexed if before[dim] == 1 and source.is_split(dim)]
    if not split:
        return
    vector = dims.index_vector
    last = [source.global_shape[dim] - before[dim] for dim in dims.indexed]
    last_here = [source.shape[dim] - sizes[dim] for dim in dims.indexed]
    with ir.InsertionPoint(op), op.location:
        read = _clamped(_wide(op.operands[1], dims, last), vector, last)
        here = hlo.elementwise("subtract", read, _begins(source, dims, split, read))
        nearest = _clamped(here, vector, last_here)
        is_here = hlo.compare("EQ", here, nearest)
        parts = [hlo.index_along(is_here, vector, dims.indexed.index(dim)) for dim in split]
        is_all_here = reduce(lambda a, b: hlo.elementwise("and", a, b), parts)
    op.operands[1] = nearest
    op.attributes["indices_are_sorted"] = ir.BoolAttr.get(False)
    _keep(
        op,
        is_all_here,
        [dim for dim in range(len(partitioned.result.shape)) if dim not in dims.window],
    )


def partition_scatter(partitioned: PartitionedOp) -> None:
    """Shift indices into the shard: StableHLO ignores updates that are out of its bounds."""
    op, target, dims = partitioned.op, partitioned.result, Numbers.of_scatter(partitioned.op)
    split = [dim for dim in dims.indexed if target.is_split(dim)]  # updates have one element there
    if not split:
        return
    number = len(op.results)
    with ir.InsertionPoint(op), op.location:
        indices = _wide(op.operands[number], dims)
        here = hlo.elementwise("subtract", indices, _begins(target, dims, split, indices))
    op.operands[number] = here


def _wide(indices: ir.Value, dims: Numbers, last: Sequence[int] | None = None) -> ir.Value:
    """The indices as signed 64-bit integers, with a dimension for their components.

    Unsigned indices from 2^63 on would become negative: if `last` is given, it clamps them first.
    """
    shape, element = list(indices.type.shape), indices.type.element_type
    if dims.index_vector == len(shape):
        indices = hlo.reshape(indices, [*shape, 1])
    if last is not None and element.is_unsigned and element.width == 64:
        indices = hlo.elementwise("minimum", indices, _highest(last, dims.index_vector, indices))
    return hlo.convert(indices, ir.IntegerType.get_signless(64))


def _clamped(indices: ir.Value, vector: int, last: Sequence[int]) -> ir.Value:
    """The indices with each component clamped to 0 to its `last`."""
    return hlo.clamp(hlo.number(0, indices.type), indices, _highest(last, vector, indices))


def _highest(last: Sequence[int], vector: int, indices: ir.Value) -> ir.Value:
    if len(set(last)) == 1:
        return hlo.number(last[0], indices.type)
    return _along(hlo.integers(last, indices.type.element_type), vector, indices)


def _begins(shard: Shard, dims: Numbers, split: Sequence[int], indices: ir.Value) -> ir.Value:
    """Where the shard begins, for each component, as a tensor like `indices`."""
    begins = [
        shard.begin(dim) if dim in split else hlo.integers([0], indices.type.element_type)
        for dim in dims.indexed
    ]
    return _along(hlo.concatenate(begins), dims.index_vector, indices)


def _along(listed: ir.Value, vector: int, like: ir.Value) -> ir.Value:
    return hlo.broadcast(listed, like.type.shape, [vector])


def _keep(op: ir.Operation, where: ir.Value, dims: Sequence[int]) -> None:
    """Set the op's result to zero where `where`, which has dimensions `dims` of it, is false."""
    result = op.results[0]
    with ir.InsertionPoint.after(op), op.location:
        mask = hlo.broadcast(where, result.type.shape, dims)
        kept = hlo.select(mask, result, hlo.additive_identity(result.type))
    result.replace_all_uses_except(kept, kept.owner.operation)
