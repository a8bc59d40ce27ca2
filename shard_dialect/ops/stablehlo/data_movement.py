"""StableHLO ops that move elements: shapes, slices, joining, padding.

    transpose [2, 0, 1]     ([b, c, a]) -> ([a, b, c])
    slice [0:4, 2:8]        ([a, b]) -> ([a, b]) permuted={b}
    concatenate dim 1       ([a, b], [a, b]) -> ([a, b]) whole={b}

Where tensors have a factor in different sizes, the factor's size is the operand's, for
`concatenate` the result's. Source of the factors, as in all of this package: Shardy's registry of
rules.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from shard_dialect.ir.bindings import ir
from shard_dialect.ir.building import stablehlo as hlo
from shard_dialect.ir.building.build import create_value
from shard_dialect.ir.building.reductions import reduction_with_identity
from shard_dialect.ir.mesh.attributes import SHARDINGS
from shard_dialect.ir.mesh.sharding_attributes import is_sharding, read_annotation
from shard_dialect.model import ShardingRule, Windows
from shard_dialect.model.reached import reached
from shard_dialect.model.rule import Role
from shard_dialect.ops.factors import Factors, Kind, Query, reshaped
from shard_dialect.ops.op_record import OpRecord
from shard_dialect.ops.padding import anything
from shard_dialect.ops.partial_values import inserts, joins, moves
from shard_dialect.ops.partitioned_op import PartitionedOp
from shard_dialect.ops.scalar_functions import Trait
from shard_dialect.ops.stablehlo import arithmetic
from shard_dialect.ops.stablehlo.attribute_reading import (
    integer,
    integers,
    pad_widths,
    slice_bounds,
)
from shard_dialect.ops.stablehlo.facets import expansion, python, sample
from shard_dialect.ops.stablehlo.reduction_rules import is_additive
from shard_dialect.ops.window_shards import (
    inside,
    joined_along,
    padding_of,
    partition_joined,
    turned_around,
)


def elementwise(query: Query) -> ShardingRule | None:
    """One factor per dimension, shared by all tensors except scalars (`clamp`'s bounds)."""
    shape = query.results[0]
    if shape is None:
        return None
    dims = tuple((dim,) for dim in range(len(shape)))
    operands = (None if each is None else dims if each else () for each in query.operands)
    return ShardingRule(shape, tuple(operands), (dims,) * len(query.results), role="elementwise")


def alike(query: Query, needed: int | None = 0, role: Role = "other") -> ShardingRule | None:
    """One factor per dimension, shared by all tensors; the last `needed` dimensions are whole.

    All dimensions are whole if `needed` is `None`.
    """
    factors = Factors(query)
    if query.results[0] is None:  # a token
        return None
    shape = factors.results[0]
    free = 0 if needed is None else len(shape) - needed
    for dim, size in enumerate(shape):
        factors.add_to_all(dim, size, "passed" if dim < free else "need_replication")
    return factors.rule(role)


all_replicated = partial(alike, needed=None)
of_matrices = partial(alike, needed=2)


def bitcast_convert(query: Query) -> ShardingRule | None:
    """Elementwise; if widths differ, a wide element is one more dimension of narrow ones."""
    factors = Factors(query)
    source, target = factors.operands[0], factors.results[0]
    common = min(len(source), len(target))
    for dim in range(common):
        factors.add_to_all(dim, source[dim])
    if len(target) > common:
        factors.add(target[-1], (), (common,), "need_replication")
    elif len(source) > common:
        factors.add(source[-1], (common,), (), "need_replication")
    return factors.rule("elementwise" if source == target else "other")


def broadcast_in_dim(query: Query) -> ShardingRule | None:
    """Each dimension of the operand is one of the result's, or has size 1 and is repeated."""
    factors = Factors(query)
    source_of = {to: dim for dim, to in enumerate(integers(query.op, "broadcast_dimensions"))}
    for dim, size in enumerate(factors.results[0]):
        source = source_of.get(dim)
        if source is not None and factors.operands[0][source] != size:
            factors.add(1, (source,))
            source = None
        factors.add(size, (source,), (dim,))
    return factors.rule("broadcast")


def transpose(query: Query) -> ShardingRule | None:
    """One factor per dimension of the result, permuted by `permutation`."""
    factors = Factors(query)
    for to, dim in enumerate(integers(query.op, "permutation")):
        factors.add(factors.operands[0][dim], (dim,), (to,))
    return factors.rule("pass")


def reshape(query: Query) -> ShardingRule | None:
    """The rule of a reshape: see `ops.factors`."""
    operand, result = query.operands[0], query.results[0]
    return None if operand is None or result is None else reshaped(operand, result)


def reverse(query: Query) -> ShardingRule | None:
    """Reversed dimensions are permuted, and read in windows; the others pass."""
    factors = Factors(query)
    turned = integers(query.op, "dimensions")
    for dim, size in enumerate(factors.results[0]):
        if dim in turned:
            factors.add_to_all(dim, size, "permuted", windows=[turned_around(size)])
        else:
            factors.add_to_all(dim, size)
    return factors.rule()


def concatenate(query: Query) -> ShardingRule | None:
    """The rule of a concatenation: see `joined_along`.

    The joined dimension is whole, or permuted if all operands are slices (one tensor rolled around,
    say).
    """
    kind: Kind = "permuted" if _rolls(list(query.op.operands)) else "need_replication"
    return joined_along(query, integer(query.op, "dimension"), kind, "other")


def partition_concatenate(partitioned: PartitionedOp) -> None:
    """Replace the op on shards: see `partition_joined`."""
    partition_joined(partitioned, integer(partitioned.op, "dimension"))


def _rolls(values: Sequence[ir.Value]) -> bool:
    """Whether all are slices, or slices of one tensor and that tensor itself."""
    sliced = [_sliced(value) for value in values]
    if all(sliced):
        return True
    sources = {source or value for value, source in zip(values, sliced, strict=True)}
    return len(sources) == 1 and any(sliced)


def _sliced(value: ir.Value) -> ir.Value | None:
    owner = value.owner
    if isinstance(owner, ir.Block) or owner.operation.name != "stablehlo.slice":
        return None
    return owner.operation.operands[0]


def slice_(query: Query) -> ShardingRule | None:
    """Dimensions taken in full pass; sliced ones are permuted, and read in windows.

    One element of a dimension is a sum over its shards, of which one has the element, and the
    others zeros: nothing else is cheaper where all devices, or others, need it. Only what is joined
    with neighbours, as in a `jnp.roll`, stays where it is.
    """
    factors = Factors(query)
    begins, strides = (integers(query.op, name) for name in ("start_indices", "strides"))
    is_sum = is_additive(query.op.results[0].type.element_type)
    for dim, (size, sliced) in enumerate(zip(factors.operands[0], factors.results[0], strict=True)):
        if size == sliced:
            factors.add_to_all(dim, size)
        elif sliced == 1 and is_sum and not _stays(query.op, dim):
            factors.add(size, (dim,), (), "sum")
            factors.add(1, (), (dim,), "need_replication")
        else:
            read = Windows(size, sliced, strides[dim], 1, -begins[dim])
            factors.add_to_all(dim, size, "permuted", windows=[read])
    return factors.rule()


def _stays(op: ir.Operation, dim: int) -> bool:
    """Whether a slice of one element along `dim` is on the device that has the element.

    So it is where its sharding, or its type once it is distributed, says so; else where it is to be
    joined with others.
    """
    (operand,), (result,) = op.operands, op.results
    asked = op.attributes[SHARDINGS][0] if SHARDINGS in op.attributes else None
    if any(_splits(each, dim, result.type.rank) for each in (asked, result.type.encoding)):
        return True
    if _splits(operand.type.encoding, dim, result.type.rank):
        return False

    def moved(value: ir.Value) -> list[ir.Value]:
        users = (use.owner.operation for use in value.uses)
        return [each for user in users if user.name.startswith("mesh.") for each in user.results]

    found = reached([op.results[0]], moved)
    return any(use.owner.operation.name in _JOINS for value in found for use in value.uses)


def _splits(attribute: ir.Attribute | None, dim: int, rank: int) -> bool:
    """Whether the attribute is an annotation, or a type's encoding, that splits dimension `dim`."""
    if attribute is None or not is_sharding(attribute):
        return False
    return bool(read_annotation(attribute, rank).sharding.split_axes[dim])


_JOINS = ("stablehlo.concatenate", "stablehlo.dynamic_update_slice", "stablehlo.pad")


def partition_slice(partitioned: PartitionedOp) -> None:
    """Set local bounds in split dimensions, where an operand's shard is read as a whole.

    Of a dimension that is summed up, the device that has the element reads it.
    """
    begins, ends, strides = slice_bounds(partitioned.op)
    for dim, size in enumerate(partitioned.result.shape):
        if partitioned.result.is_split(dim):
            begins[dim], ends[dim] = 0, (size - 1) * strides[dim] + 1
        elif partitioned.operand(0).is_split(dim):
            _read_one(partitioned, dim, begins[dim])
            begins[dim], ends[dim] = 0, 1
    partitioned.op.attributes["start_indices"] = hlo.i64s(begins)
    partitioned.op.attributes["limit_indices"] = hlo.i64s(ends)


def _read_one(partitioned: PartitionedOp, dim: int, at: int) -> None:
    """Let the operand be its element `at` along `dim` on the device that has it; others add 0."""
    op, shard = partitioned.op, partitioned.operand(0)
    type_, low = op.operands[0].type, shard.halos[dim][0]
    with ir.InsertionPoint(op), op.location:
        begin, end = (hlo.reshape(each, []) for each in (shard.begin(dim), shard.end(dim)))
        place = hlo.elementwise("subtract", hlo.number(at + low, begin.type), begin)
        starts = [hlo.number(0, begin.type)] * type_.rank
        starts[dim] = place  # one outside reads another element, and drops it
        sizes = [1 if each == dim else size for each, size in enumerate(type_.shape)]
        element = hlo.dynamic_slice(op.operands[0], starts, sizes)
        is_here = hlo.elementwise(
            "and",
            hlo.compare("GE", place, hlo.number(low, place.type)),
            hlo.compare("LT", place, end),
        )
        zeros = hlo.additive_identity(element.type)
        op.operands[0] = hlo.select(hlo.broadcast(is_here, sizes), element, zeros)


def pad(query: Query) -> ShardingRule | None:
    """Dimensions without padding pass; padded ones are permuted, even if their size stays the same.

    Padded ones are read in windows if the padding value is the identity of a reduction.
    """
    factors = Factors(query)
    fill = reduction_with_identity(query.op.operands[1])
    lows, highs, between = pad_widths(query.op)
    for dim, (size, padded) in enumerate(zip(factors.operands[0], factors.results[0], strict=True)):
        if size == padded and not lows[dim] and not highs[dim]:
            factors.add_to_all(dim, size)
        else:
            read = inside(Windows(size, padded, 1, 1, lows[dim], between[dim] + 1, fill))
            factors.add_to_all(dim, size, "permuted", windows=[read])
    return factors.rule()


def partition_pad(partitioned: PartitionedOp) -> None:
    """Set the padding of a shard; where the dimension is split, halos hold the padding."""
    lows, highs, _ = pad_widths(partitioned.op)
    ends = [
        padding_of(partitioned, dim, each) for dim, each in enumerate(zip(lows, highs, strict=True))
    ]
    names = ("edge_padding_low", "edge_padding_high")
    for name, padding in zip(names, zip(*ends, strict=True), strict=False):
        partitioned.op.attributes[name] = hlo.i64s(padding)


def iota(query: Query) -> ShardingRule | None:
    """One factor per dimension of the result."""
    factors = Factors(query)
    for dim, size in enumerate(factors.results[0]):
        factors.add_to_all(dim, size)
    return factors.rule()


def partition_iota(partitioned: PartitionedOp) -> None:
    """Add where the shard begins, if the counted dimension is split, in 64-bit integers."""
    along, result = integer(partitioned.op, "iota_dimension"), partitioned.op.results[0]
    if not partitioned.result.is_split(along):
        return
    type_ = result.type
    wide = ir.RankedTensorType.get(type_.shape, ir.IntegerType.get_signless(64))
    with ir.InsertionPoint.after(partitioned.op), partitioned.op.location:
        begin = hlo.broadcast(partitioned.result.begin(along), type_.shape, [along])
        attributes = {"iota_dimension": partitioned.op.attributes["iota_dimension"]}
        here = create_value("stablehlo.iota", wide, [], attributes)
        counted = hlo.convert(hlo.elementwise("add", here, begin), type_.element_type)
    result.replace_all_uses_with(counted)


RECORDS: dict[str, OpRecord] = {
    "bitcast_convert": OpRecord(
        bitcast_convert,
        lowering=expansion("upstream_workarounds:bitcast_convert"),
        python=python("bitcast", "conversions"),
        traits=Trait.CONVERTS | Trait.EXACT,
    ),
    "broadcast_in_dim": OpRecord(
        broadcast_in_dim, partial=moves, python=python("broadcast_in_dim"), traits=Trait.REPEATS
    ),
    "concatenate": OpRecord(
        concatenate,
        partition=partition_concatenate,
        partial=joins,
        lowering=expansion("upstream_workarounds:concat"),
        python=python("concat", "tensor_ops"),
        traits=Trait.MOVES | Trait.BY_NEIGHBOURS,
    ),
    "iota": OpRecord(
        iota,
        partition=partition_iota,
        lowering=expansion("upstream_workarounds:iota"),
        python=python("iota"),
        traits=Trait.CONSTANT,
    ),
    "map": OpRecord(
        alike, sample=sample("mapped"), operations=arithmetic.mapped, python=python("map_")
    ),
    "pad": OpRecord(
        pad,
        partition=partition_pad,
        partial=inserts,
        lowering=expansion("upstream_workarounds:pad"),
        python=python("pad"),
        traits=Trait.MOVES | Trait.BY_NEIGHBOURS,
    ),
    "reshape": OpRecord(
        reshape, partial=moves, python=python("reshape", "tensor_ops"), traits=Trait.RESHAPES
    ),
    "reverse": OpRecord(
        reverse,
        partial=moves,
        python=python("reverse"),
        traits=Trait.MOVES,
    ),
    "slice": OpRecord(
        slice_,
        sample=sample("slice_"),
        partition=partition_slice,
        padding=anything,
        partial=moves,
        lowering=expansion("upstream_workarounds:without_elements"),
        python=python("slice_"),
        traits=Trait.SLICES | Trait.BY_NEIGHBOURS,
    ),
    "transpose": OpRecord(transpose, partial=moves, python=python("transpose"), traits=Trait.MOVES),
}
