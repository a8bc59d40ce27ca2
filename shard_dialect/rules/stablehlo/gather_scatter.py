"""StableHLO ops that read or write at given indices.

    gather rows of [v, d]          ([a, b], [c, d, e]) -> ([c, d, b]) reduction={a: sum} whole={e}

In a dimension that slices take in full, indices are clamped to 0, so slices of a shard are full
too. In a dimension of which slices have one element, each device reads or writes its own shard
(`sharded_gather_scatter`): it reads zeros for other devices' elements. Other dimensions are whole.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from shard_dialect.ir.bindings import ir
from shard_dialect.model import ShardingRule
from shard_dialect.model.sharding import Shape
from shard_dialect.rules.factors import Factors, Kind
from shard_dialect.rules.rule_query import Query
from shard_dialect.rules.stablehlo.attribute_reading import numbers
from shard_dialect.rules.stablehlo.combiner import combiner, is_additive


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
            add(operand[of_operand], of_operand, None, None, "need_replication")
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
