"""Slices at dynamic offsets: reads and updates.

    dynamic_slice 2 of [4, 8]            ([a, c], [], []) -> ([a, b]) reduction={c: sum} whole={b}
    dynamic_update_slice of [4, 8] by 2  ([a, b], [a, c], [], []) -> ([a, b]) whole={c}

Where a sliced dimension is split, the slice may span several shards, or lie outside this one. So a
shard is padded by the size of the slice at both ends, and the offset is clamped to it:

    shard      . . . . a b c d . . . .       padded for a slice of 4
    offsets    0       4       8             further offsets are clamped

A device then reads its part of the slice, and zeros elsewhere. An update writes its part to the
shard, and the rest to the padding, which is dropped.
"""

from __future__ import annotations

from shard_dialect.ir.bindings import ir
from shard_dialect.ir.building import stablehlo as hlo
from shard_dialect.model import ShardingRule
from shard_dialect.ops.factors import Factors, Query
from shard_dialect.ops.op_record import OpRecord
from shard_dialect.ops.padding import identities
from shard_dialect.ops.partial_values import inserts, moves
from shard_dialect.ops.partitioned_op import PartitionedOp, Shard
from shard_dialect.ops.scalar_functions import Trait
from shard_dialect.ops.stablehlo.facets import expansion, python, sample
from shard_dialect.ops.stablehlo.reduction_rules import is_additive


def dynamic_slice(query: Query) -> ShardingRule | None:
    """Dimensions taken in full pass. A sliced one is a sum over the operand's shards."""
    factors = Factors(query)
    is_sum = is_additive(query.op.results[0].type.element_type)
    for dim, (size, slice_size) in enumerate(
        zip(factors.operands[0], factors.results[0], strict=True)
    ):
        if size == slice_size:
            factors.add_to_all(dim, size)
        else:
            factors.add(size, (dim,), (), "sum" if is_sum else "need_replication")
            factors.add(slice_size, (), (dim,), "need_replication")
    return factors.rule("forward")


def dynamic_update_slice(query: Query) -> ShardingRule | None:
    """Dimensions that the update fills pass; in others the update is whole."""
    factors = Factors(query)
    for dim, (size, new) in enumerate(zip(*factors.operands[:2], strict=True)):
        if size == new:
            factors.add_to_all(dim, size)
        else:
            factors.add(size, (dim,), (dim,))
            factors.add(new, (None, dim), (), "need_replication")
    return factors.rule("forward")


def partition_dynamic_slice(partitioned: PartitionedOp) -> None:
    """Set local sizes, and read from a padded shard where it is sliced."""
    partitioned.op.attributes["slice_sizes"] = ir.DenseI64ArrayAttr.get(
        list(partitioned.result.shape)
    )
    _make_room(partitioned, partitioned.result, first=1)


def partition_dynamic_update_slice(partitioned: PartitionedOp) -> None:
    """Update a padded shard where it is sliced, and drop the padding."""
    op, update, result = partitioned.op, partitioned.operand(1), partitioned.op.results[0]
    roomy = _make_room(partitioned, update, first=2)
    if not roomy:
        return
    result.set_type(op.operands[0].type)
    with ir.InsertionPoint.after(op), op.location:
        slices = [result]
        for dim in roomy:
            start, size = update.shape[dim], partitioned.result.shape[dim]
            slices.append(hlo.slice_along(slices[-1], dim, start, size))
    result.replace_all_uses_except(slices[-1], slices[1].owner.operation)


def _make_room(partitioned: PartitionedOp, slices: Shard, first: int) -> list[int]:
    """Pad a shard by the slice's size in dimensions that are split and sliced; returns these.

    The operands from `first` on are the offsets, which become offsets in the padded shard.
    """
    op, shard = partitioned.op, partitioned.operand(0)
    sizes = list(enumerate(slices.global_shape))
    split = [dim for dim, size in sizes if shard.is_split(dim) and size != shard.global_shape[dim]]
    if not split:
        return []
    with ir.InsertionPoint(op), op.location:
        rooms = [size if dim in split else 0 for dim, size in sizes]
        zero = hlo.additive_identity(hlo.tensor((), op.operands[0].type.element_type))
        op.operands[0] = hlo.pad(op.operands[0], zero, rooms, rooms, [0] * len(rooms))
        for dim, size in sizes:
            begin = _clamped(op.operands[first + dim], shard.global_shape[dim] - size)
            if dim in split:
                here = hlo.elementwise("subtract", begin, hlo.reshape(shard.begin(dim), []))
                begin = hlo.elementwise("add", here, hlo.number(size, here.type))
                begin = _clamped(begin, shard.shape[dim] + size)
            op.operands[first + dim] = begin
    return split


def _clamped(begin: ir.Value, last: int) -> ir.Value:
    """The offset clamped to 0 to `last`, as a signed 64-bit integer."""
    element = begin.type.element_type
    if element.is_unsigned and element.width == 64:  # from 2^63 on it would turn negative
        begin = hlo.elementwise("minimum", begin, hlo.number(last, begin.type))
    wide = hlo.convert(begin, ir.IntegerType.get_signless(64))
    return hlo.clamp(hlo.number(0, wide.type), wide, hlo.number(last, wide.type))


_SIGNED_STARTS = expansion("gather_scatter_loops:signed_starts")
RECORDS: dict[str, OpRecord] = {
    "dynamic_slice": OpRecord(
        dynamic_slice,
        sample=sample("dynamic_slice", file="stablehlo_indexing"),
        partition=partition_dynamic_slice,
        padding=identities,
        partial=moves,
        lowering=_SIGNED_STARTS,
        python=python("dynamic_slice"),
        traits=Trait.SLICES,
    ),
    "dynamic_update_slice": OpRecord(
        dynamic_update_slice,
        sample=sample("dynamic_update_slice", file="stablehlo_indexing"),
        partition=partition_dynamic_update_slice,
        partial=inserts,
        lowering=_SIGNED_STARTS,
        python=python("dynamic_update_slice"),
        traits=Trait.UPDATES,
    ),
}
