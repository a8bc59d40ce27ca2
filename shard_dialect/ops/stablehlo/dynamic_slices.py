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

from collections.abc import Sequence

from shard_dialect.ir.bindings import ir
from shard_dialect.ir.building.build import create
from shard_dialect.model import ShardingRule
from shard_dialect.ops.factors import Factors, Query
from shard_dialect.ops.op_record import OpRecord
from shard_dialect.ops.padding import identities
from shard_dialect.ops.partial_values import inserts, moves
from shard_dialect.ops.partitioned_op import PartitionedOp, Shard
from shard_dialect.ops.scalar_functions import Trait
from shard_dialect.ops.stablehlo.facets import expansion, python, sample
from shard_dialect.ops.stablehlo.reduction_rules import is_additive


def constant(values: Sequence[int], element: ir.Type) -> ir.Value:
    """A constant tensor of rank 1 with these integers."""
    type_ = ir.RankedTensorType.get([len(values)], element)
    listed = ir.DenseElementsAttr.get([ir.IntegerAttr.get(element, v) for v in values], type_)
    return create("stablehlo.constant", [type_], [], {"value": listed}).results[0]


def repeated(number: float, type_: ir.RankedTensorType) -> ir.Value:
    """A constant tensor with `number` in every element."""
    element = type_.element_type
    if isinstance(element, ir.ComplexType):
        real = ir.RankedTensorType.get(type_.shape, element.element_type)
        parts = [repeated(number, real), repeated(0, real)]
        return create("stablehlo.complex", [type_], parts).results[0]
    kind = ir.IntegerAttr if isinstance(element, ir.IntegerType) else ir.FloatAttr
    value = ir.DenseElementsAttr.get_splat(type_, kind.get(element, number))
    return create("stablehlo.constant", [type_], [], {"value": value}).results[0]


def joined(a: ir.Value, b: ir.Value, name: str) -> ir.Value:
    """The elementwise op `name` (`subtract`, say) on two tensors of one type."""
    return create(f"stablehlo.{name}", [a.type], [a, b]).results[0]


def clamped(low: ir.Value, value: ir.Value, high: ir.Value) -> ir.Value:
    """`value` clamped to `low` and `high`."""
    return create("stablehlo.clamp", [value.type], [low, value, high]).results[0]


def converted(value: ir.Value, element: ir.Type) -> ir.Value:
    """`value` with elements of type `element`."""
    type_ = ir.RankedTensorType.get(value.type.shape, element)
    is_so = type_ == value.type
    return value if is_so else create("stablehlo.convert", [type_], [value]).results[0]


def equal(a: ir.Value, b: ir.Value) -> ir.Value:
    """A tensor of i1: whether the elements are equal."""
    type_ = ir.RankedTensorType.get(a.type.shape, ir.IntegerType.get_signless(1))
    attributes = {"comparison_direction": ir.Attribute.parse("#stablehlo<comparison_direction EQ>")}
    return create("stablehlo.compare", [type_], [a, b], attributes).results[0]


def selected(where: ir.Value, value: ir.Value, other: ir.Value) -> ir.Value:
    """The elements of `value` where `where` is true, of `other` elsewhere."""
    return create("stablehlo.select", [value.type], [where, value, other]).results[0]


def reshaped(value: ir.Value, shape: Sequence[int]) -> ir.Value:
    """`value` in another shape."""
    type_ = ir.RankedTensorType.get(shape, value.type.element_type)
    return create("stablehlo.reshape", [type_], [value]).results[0]


def broadcast(value: ir.Value, shape: Sequence[int], dims: Sequence[int]) -> ir.Value:
    """`value` in `shape`; its dimensions become `dims`."""
    type_ = ir.RankedTensorType.get(shape, value.type.element_type)
    if type_ == value.type:  # dimensions come in order here
        return value
    attributes = {"broadcast_dimensions": ir.DenseI64ArrayAttr.get(list(dims))}
    return create("stablehlo.broadcast_in_dim", [type_], [value], attributes).results[0]


def transposed(value: ir.Value, permutation: Sequence[int]) -> ir.Value:
    """`value` with its dimensions in another order."""
    if list(permutation) == sorted(permutation):
        return value
    shape = [value.type.shape[dim] for dim in permutation]
    type_ = ir.RankedTensorType.get(shape, value.type.element_type)
    attributes = {"permutation": ir.DenseI64ArrayAttr.get(list(permutation))}
    return create("stablehlo.transpose", [type_], [value], attributes).results[0]


def padded(value: ir.Value, rooms: Sequence[int]) -> ir.Value:
    """`value` with `rooms[dim]` zeros at both ends of each dimension."""
    shape = [size + 2 * room for size, room in zip(value.type.shape, rooms, strict=True)]
    element = value.type.element_type
    zero = repeated(0, ir.RankedTensorType.get([], element))
    listed = {
        "edge_padding_low": rooms,
        "edge_padding_high": rooms,
        "interior_padding": [0] * len(rooms),
    }
    attributes = {name: ir.DenseI64ArrayAttr.get(list(each)) for name, each in listed.items()}
    type_ = ir.RankedTensorType.get(shape, element)
    return create("stablehlo.pad", [type_], [value, zero], attributes).results[0]


def concatenated(values: Sequence[ir.Value], dim: int = 0) -> ir.Value:
    """The concatenation of tensors along a dimension."""
    if len(values) == 1:
        return values[0]
    shape = list(values[0].type.shape)
    shape[dim] = sum(value.type.shape[dim] for value in values)
    type_ = ir.RankedTensorType.get(shape, values[0].type.element_type)
    along = {"dimension": ir.IntegerAttr.get(ir.IntegerType.get_signless(64), dim)}
    return create("stablehlo.concatenate", [type_], values, along).results[0]


def sliced(value: ir.Value, dim: int, begin: int, size: int) -> ir.Value:
    """`size` elements along a dimension, from `begin` on."""
    shape = list(value.type.shape)
    if shape[dim] == size:
        return value
    begins, ends = [0] * len(shape), shape.copy()
    begins[dim], ends[dim] = begin, begin + size
    listed = {"start_indices": begins, "limit_indices": ends, "strides": [1] * len(shape)}
    attributes = {name: ir.DenseI64ArrayAttr.get(each) for name, each in listed.items()}
    shape[dim] = size
    type_ = ir.RankedTensorType.get(shape, value.type.element_type)
    return create("stablehlo.slice", [type_], [value], attributes).results[0]


def element_at(value: ir.Value, dim: int, index: int) -> ir.Value:
    """The slice at `index` along a dimension, without that dimension."""
    shape = list(value.type.shape)
    return reshaped(sliced(value, dim, index, 1), [*shape[:dim], *shape[dim + 1 :]])


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
            slices.append(sliced(slices[-1], dim, update.shape[dim], partitioned.result.shape[dim]))
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
        op.operands[0] = padded(op.operands[0], rooms)
        for dim, size in sizes:
            begin = _clamped(op.operands[first + dim], shard.global_shape[dim] - size)
            if dim in split:
                here = joined(begin, reshaped(shard.begin(dim), []), "subtract")
                begin = joined(here, repeated(size, here.type), "add")
                begin = _clamped(begin, shard.shape[dim] + size)
            op.operands[first + dim] = begin
    return split


def _clamped(begin: ir.Value, last: int) -> ir.Value:
    """The offset clamped to 0 to `last`, as a signed 64-bit integer."""
    element = begin.type.element_type
    if element.is_unsigned and element.width == 64:  # from 2^63 on it would turn negative
        begin = joined(begin, repeated(last, begin.type), "minimum")
    wide = converted(begin, ir.IntegerType.get_signless(64))
    return clamped(repeated(0, wide.type), wide, repeated(last, wide.type))


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
