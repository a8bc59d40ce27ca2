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

from collections.abc import Mapping

from shard_dialect.ir.bindings import ir
from shard_dialect.ir.building import build
from shard_dialect.ir.building import stablehlo as hlo
from shard_dialect.model import ShardingRule
from shard_dialect.model.sharding import Shape
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
    near, moves = _read_near(partitioned, partitioned.result, first=1)
    op.attributes["slice_sizes"] = hlo.i64s(near)
    if not moves:
        return
    read = op.results[0]
    uses = [(use.owner, use.operand_number) for use in read.uses]
    read.set_type(hlo.tensor(near, read.type.element_type))
    with ir.InsertionPoint.after(op), op.location:
        moved = _moved(read, moves, shape)
    for user, number in uses:
        user.operands[number] = moved


def partition_dynamic_update_slice(partitioned: PartitionedOp) -> None:
    """Where a dimension is split, move the update, and keep what it does not reach."""
    op, sizes = partitioned.op, partitioned.operand(1).shape
    near, moves = _read_near(partitioned, partitioned.operand(1), first=2)
    if not moves:
        return
    with ir.InsertionPoint(op), op.location:
        new, starts = op.operands[1], list(op.operands)[2:]
        back = {dim: hlo.elementwise("negate", move) for dim, move in moves.items()}
        is_new = _inside(near, back, sizes)
        if near != sizes:  # of a larger update, first the part that is nearest to its place
            zero, begins = hlo.index(0), {d: _clamped(back[d], sizes[d] - near[d]) for d in back}
            new = hlo.dynamic_slice(new, [begins.get(d, zero) for d in range(len(near))], near)
            back = {d: hlo.elementwise("subtract", each, begins[d]) for d, each in back.items()}
        old = hlo.dynamic_slice(op.operands[0], starts, near)
        op.operands[1] = hlo.select(is_new, _moved(new, back, near), old)


def _read_near(
    partitioned: PartitionedOp, slices: Shard, first: int
) -> tuple[Shape, dict[int, ir.Value]]:
    """Let the op read or write the slice in the shard that is nearest to the one asked for.

    The operands from `first` on are the offsets. Returns the sizes of the nearest slice, at most
    those of the shard, and how far from its beginning the one asked for begins, by dimension that
    is split and sliced.
    """
    op, shard, moves = partitioned.op, partitioned.operand(0), dict[int, ir.Value]()
    sizes = list(enumerate(slices.global_shape))
    split = [dim for dim, size in sizes if shard.is_split(dim) and size != shard.global_shape[dim]]
    near = list(slices.shape)
    for dim in split:
        near[dim] = min(near[dim], shard.shape[dim])
    if not split:
        return tuple(near), moves
    with ir.InsertionPoint(op), op.location:
        for dim, size in sizes:
            begin = _clamped(op.operands[first + dim], shard.global_shape[dim] - size)
            if dim in split:
                here = hlo.elementwise("subtract", begin, hlo.reshape(shard.begin(dim), []))
                begin = _clamped(here, shard.shape[dim] - near[dim])
                moves[dim] = hlo.elementwise("subtract", here, begin)
            op.operands[first + dim] = begin
    return tuple(near), moves


def _moved(value: ir.Value, moves: Mapping[int, ir.Value], shape: Shape) -> ir.Value:
    """What is of these sizes in `value` from so many elements behind its beginning on.

    Around `value`, which none of it may reach, are zeros. One dimension after the other, since room
    for all at once would be larger than `value` by a power of three.
    """
    zero = hlo.additive_identity(hlo.tensor((), value.type.element_type))
    for dim, move in moves.items():
        room = [shape[dim] if each == dim else 0 for each in range(len(shape))]
        value = hlo.pad(value, zero, room, room, [0] * len(shape))
        start = hlo.elementwise("add", move, hlo.number(shape[dim], move.type))
        value = hlo.slice_at(value, dim, start, shape[dim])
    return value


def _inside(shape: Shape, moves: Mapping[int, ir.Value], sizes: Shape) -> ir.Value:
    """Whether what is moved to each position of `shape` is an element of a tensor of `sizes`."""
    inside = hlo.number(1, hlo.tensor(shape, build.integer(1)))
    for dim, move in moves.items():
        at = hlo.elementwise("add", hlo.iota(shape, dim), hlo.broadcast(move, shape))
        first, last = (hlo.number(each, at.type) for each in (0, sizes[dim] - 1))
        inside = hlo.elementwise("and", inside, hlo.compare("EQ", at, hlo.clamp(first, at, last)))
    return inside


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
