"""Slices at dynamic offsets: reads and updates.

    dynamic_slice 2 of [4, 8]            ([a, c], [], []) -> ([a, b]) reduction={c: sum} whole={b}
    dynamic_update_slice of [4, 8] by 2  ([a, b], [a, c], [], []) -> ([a, b]) whole={c}

Where a sliced dimension is split, the slice may span several shards, or lie outside this one. A
device reads the nearest slice in its shard, as large as the one that is asked for, and moves it to
its place:

    shard        a b c d e f
    at 4         . . . . e f . .     reads c d e f, which is 2 too early
    moved            e f . .         with zeros for what others have

An update is moved the other way, and what it leaves of the slice in the shard stays. So nothing is
copied but slices: a shard may be the cache of all that a model has read.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

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
    """Set local sizes; where a dimension is split, move what is read to its place."""
    op, shape = partitioned.op, partitioned.result.shape
    op.attributes["slice_sizes"] = ir.DenseI64ArrayAttr.get(list(shape))
    moves = _read_near(partitioned, partitioned.result, first=1)
    if not moves:
        return
    read = op.results[0]
    with ir.InsertionPoint.after(op), op.location:
        zero = hlo.additive_identity(hlo.tensor((), read.type.element_type))
        room = _with_room(read, moves, zero)
        moved = _moved(room, moves, shape)
    read.replace_all_uses_except(moved, room.owner.operation)


def partition_dynamic_update_slice(partitioned: PartitionedOp) -> None:
    """Where a dimension is split, move the update, and keep what it does not reach."""
    op, shape = partitioned.op, partitioned.operand(1).shape
    moves = _read_near(partitioned, partitioned.operand(1), first=2)
    if not moves:
        return
    with ir.InsertionPoint(op), op.location:
        back = {dim: hlo.elementwise("negate", move) for dim, move in moves.items()}
        element, boolean = op.operands[0].type.element_type, hlo.integer(1)
        zero = hlo.additive_identity(hlo.tensor((), element))
        everywhere = hlo.number(1, hlo.tensor(shape, boolean))
        nowhere = hlo.number(0, hlo.tensor((), boolean))
        new, is_new = (
            _moved(_with_room(value, moves, outside), back, shape)
            for value, outside in ((op.operands[1], zero), (everywhere, nowhere))
        )
        old = hlo.dynamic_slice(op.operands[0], list(op.operands)[2:], shape)
        op.operands[1] = hlo.select(is_new, new, old)
    result, local = op.results[0], partitioned.result.shape
    if result.type.shape == op.operands[0].type.shape:
        return
    result.set_type(op.operands[0].type)  # the slice is larger than the shard
    with ir.InsertionPoint.after(op), op.location:
        none = [0] * len(local)
        cut = hlo.slice_(result, none, local, [1] * len(local))
    result.replace_all_uses_except(cut, cut.owner.operation)


def _read_near(partitioned: PartitionedOp, slices: Shard, first: int) -> dict[int, ir.Value]:
    """Let the op read or write the slice in the shard that is nearest to the one asked for.

    The operands from `first` on are the offsets. Returns how far from it the one asked for begins,
    by dimension that is split and sliced; at most the slice's size, where they have nothing in
    common. A shard that is smaller than the slice is padded to its size.
    """
    op, shard, moves = partitioned.op, partitioned.operand(0), dict[int, ir.Value]()
    sizes = list(enumerate(slices.global_shape))
    split = [dim for dim, size in sizes if shard.is_split(dim) and size != shard.global_shape[dim]]
    if not split:
        return {}
    with ir.InsertionPoint(op), op.location:
        more = [max(0, size - shard.shape[dim]) if dim in split else 0 for dim, size in sizes]
        if any(more):
            none = [0] * len(sizes)
            zero = hlo.additive_identity(hlo.tensor((), op.operands[0].type.element_type))
            op.operands[0] = hlo.pad(op.operands[0], zero, none, more, none)
        for dim, size in sizes:
            begin = _clamped(op.operands[first + dim], shard.global_shape[dim] - size)
            if dim in split:
                here = hlo.elementwise("subtract", begin, hlo.reshape(shard.begin(dim), []))
                begin = _clamped(here, shard.shape[dim] + more[dim] - size)
                low, high = (hlo.number(each, here.type) for each in (-size, size))
                moves[dim] = hlo.clamp(low, hlo.elementwise("subtract", here, begin), high)
            op.operands[first + dim] = begin
    return moves


def _with_room(value: ir.Value, dims: Collection[int], outside: ir.Value) -> ir.Value:
    """A slice with as much again on both sides of these dimensions."""
    rooms = [size if dim in dims else 0 for dim, size in enumerate(value.type.shape)]
    return hlo.pad(value, outside, rooms, rooms, [0] * len(rooms))


def _moved(room: ir.Value, moves: Mapping[int, ir.Value], shape: Sequence[int]) -> ir.Value:
    """The slice in a room, from so many elements after its own beginning on."""
    starts = [hlo.index(0)] * len(shape)
    for dim, move in moves.items():
        starts[dim] = hlo.elementwise("add", move, hlo.number(shape[dim], move.type))
    return hlo.dynamic_slice(room, starts, shape)


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
        sample=sample("dynamic_slice"),
        partition=partition_dynamic_slice,
        padding=identities,
        partial=moves,
        lowering=_SIGNED_STARTS,
        python=python("dynamic_slice"),
        traits=Trait.SLICES,
    ),
    "dynamic_update_slice": OpRecord(
        dynamic_update_slice,
        sample=sample("dynamic_update_slice"),
        partition=partition_dynamic_update_slice,
        partial=inserts,
        lowering=_SIGNED_STARTS,
        python=python("dynamic_update_slice"),
        traits=Trait.UPDATES,
    ),
}
