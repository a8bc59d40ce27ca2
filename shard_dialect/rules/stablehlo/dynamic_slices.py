"""Slices that begin where an operand says: read, or written over.

    dynamic_slice 2 of [4, 8]            ([a, c], [], []) -> ([a, b]) reduction={c: sum} whole={b}
    dynamic_update_slice of [4, 8] by 2  ([a, b], [a, c], [], []) -> ([a, b]) whole={c}

Where a dimension that is sliced is split, the slice may be in several shards, or beside this one:

    shard      . . . . a b c d . . . .       with room for a slice, of 4, at both ends
    begins     0       4       8             anywhere there; further away is at an end

so that of what is read a device has its part, and zeros, and what is written it finds in its shard
or loses with the room.
"""

from __future__ import annotations

from shard_dialect.ir.bindings import ir
from shard_dialect.model import ShardingRule
from shard_dialect.rules.factors import Factors
from shard_dialect.rules.partitioning import PartitionedOp, Shard
from shard_dialect.rules.query import Query
from shard_dialect.rules.stablehlo.combiner import can_be_added_up
from shard_dialect.rules.stablehlo.index_arithmetic import (
    clamped,
    converted,
    joined,
    padded,
    repeated,
    reshaped,
    sliced,
)


def dynamic_slice(query: Query) -> ShardingRule | None:
    """Dimensions that are taken in full pass, and nothing else does."""
    factors = Factors(query)
    is_sum = can_be_added_up(query.op.results[0].type.element_type)
    for dim, (size, taken) in enumerate(zip(factors.operands[0], factors.results[0], strict=True)):
        if size == taken:
            factors.add_to_all(dim, size)
        else:
            factors.add(size, (dim,), (), "sum" if is_sum else "whole")
            factors.add(taken, (), (dim,), "whole")
    return factors.rule("forward")


def dynamic_update_slice(query: Query) -> ShardingRule | None:
    """Dimensions that the update fills pass; else the operand's go to the result's."""
    factors = Factors(query)
    for dim, (size, new) in enumerate(zip(*factors.operands[:2], strict=True)):
        if size == new:
            factors.add_to_all(dim, size)
        else:
            factors.add(size, (dim,), (dim,))
            factors.add(new, (None, dim), (), "whole")
    return factors.rule("forward")


def partition_dynamic_slice(partitioned: PartitionedOp) -> None:
    partitioned.op.attributes["slice_sizes"] = ir.DenseI64ArrayAttr.get(
        list(partitioned.result.shape)
    )
    _make_room(partitioned, partitioned.result, first=1)


def partition_dynamic_update_slice(partitioned: PartitionedOp) -> None:
    op, update, result = partitioned.op, partitioned.operand(1), partitioned.op.results[0]
    roomy = _make_room(partitioned, update, first=2)
    if not roomy:
        return
    result.set_type(op.operands[0].type)
    with ir.InsertionPoint.after(op), op.location:
        parts = [result]
        for dim in roomy:
            parts.append(sliced(parts[-1], dim, update.shape[dim], partitioned.result.shape[dim]))
    result.replace_all_uses_except(parts[-1], parts[1].owner.operation)


def _make_room(partitioned: PartitionedOp, slices: Shard, first: int) -> list[int]:
    """Pad a shard along the dimensions that are split and sliced, by a slice, and give these.

    From `first` on operands say where slices begin: from now on in that.
    """
    op, shard = partitioned.op, partitioned.operand(0)
    sizes = list(enumerate(slices.whole))
    split = [dim for dim, size in sizes if shard.is_split(dim) and size != shard.whole[dim]]
    if not split:
        return []
    with ir.InsertionPoint(op), op.location:
        rooms = [size if dim in split else 0 for dim, size in sizes]
        op.operands[0] = padded(op.operands[0], rooms)
        for dim, size in sizes:
            begin = _clamped(op.operands[first + dim], shard.whole[dim] - size)
            if dim in split:
                here = joined(begin, reshaped(shard.begin(dim), []), "subtract")
                begin = joined(here, repeated(size, here.type), "add")
                begin = _clamped(begin, shard.shape[dim] + size)
            op.operands[first + dim] = begin
    return split


def _clamped(begin: ir.Value, last: int) -> ir.Value:
    """Between 0 and `last`, on 64 bits with a sign."""
    element = begin.type.element_type
    if element.is_unsigned and element.width == 64:  # from 2^63 on it would turn negative
        begin = joined(begin, repeated(last, begin.type), "minimum")
    wide = converted(begin, ir.IntegerType.get_signless(64))
    return clamped(repeated(0, wide.type), wide, repeated(last, wide.type))
