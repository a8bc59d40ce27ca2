"""Gather and scatter on shards: each device reads and writes the indices in its own shard.

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

from collections.abc import Sequence
from functools import reduce

from shard_dialect.ir.bindings import ir
from shard_dialect.rules.partitioned_op import PartitionedOp, Shard
from shard_dialect.rules.stablehlo.gather_scatter import Numbers
from shard_dialect.rules.stablehlo.index_arithmetic import (
    broadcast,
    clamped,
    concatenated,
    constant,
    converted,
    element_at,
    equal,
    joined,
    repeated,
    reshaped,
    selected,
)


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
        here = joined(read, _begins(source, dims, split, read), "subtract")
        nearest = _clamped(here, vector, last_here)
        is_here = equal(here, nearest)
        parts = [element_at(is_here, vector, dims.indexed.index(dim)) for dim in split]
        is_all_here = reduce(lambda a, b: joined(a, b, "and"), parts)
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
    split = [dim for dim in dims.indexed if dim in dims.dropped and target.is_split(dim)]
    if not split:
        return
    number = len(op.results)
    with ir.InsertionPoint(op), op.location:
        indices = _wide(op.operands[number], dims)
        here = joined(indices, _begins(target, dims, split, indices), "subtract")
    op.operands[number] = here


def _wide(indices: ir.Value, dims: Numbers, last: Sequence[int] | None = None) -> ir.Value:
    """The indices as signed 64-bit integers, with a dimension for their components.

    Unsigned indices from 2^63 on would become negative: if `last` is given, it clamps them first.
    """
    shape, element = list(indices.type.shape), indices.type.element_type
    if dims.index_vector == len(shape):
        indices = reshaped(indices, [*shape, 1])
    if last is not None and element.is_unsigned and element.width == 64:
        indices = joined(indices, _highest(last, dims.index_vector, indices), "minimum")
    return converted(indices, ir.IntegerType.get_signless(64))


def _clamped(indices: ir.Value, vector: int, last: Sequence[int]) -> ir.Value:
    """The indices with each component clamped to 0 to its `last`."""
    return clamped(repeated(0, indices.type), indices, _highest(last, vector, indices))


def _highest(last: Sequence[int], vector: int, indices: ir.Value) -> ir.Value:
    if len(set(last)) == 1:
        return repeated(last[0], indices.type)
    return _along(constant(last, indices.type.element_type), vector, indices)


def _begins(shard: Shard, dims: Numbers, split: Sequence[int], indices: ir.Value) -> ir.Value:
    """Where the shard begins, for each component, as a tensor like `indices`."""
    begins = [
        shard.begin(dim) if dim in split else constant([0], indices.type.element_type)
        for dim in dims.indexed
    ]
    return _along(concatenated(begins), dims.index_vector, indices)


def _along(listed: ir.Value, vector: int, like: ir.Value) -> ir.Value:
    return broadcast(listed, like.type.shape, [vector])


def _keep(op: ir.Operation, where: ir.Value, dims: Sequence[int]) -> None:
    """Set the op's result to zero where `where`, which has dimensions `dims` of it, is false."""
    result = op.results[0]
    with ir.InsertionPoint.after(op), op.location:
        mask = broadcast(where, result.type.shape, dims)
        kept = selected(mask, result, repeated(0, result.type))
    result.replace_all_uses_except(kept, kept.owner.operation)
