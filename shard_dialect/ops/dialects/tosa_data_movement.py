"""`tosa`'s slices, padding and concatenation: a shard of the result reads operands in windows.

slice [0, 3] of [2, 6]     ([a, b]) -> ([a, b]) permuted={b}, read in windows
"""

from __future__ import annotations

from collections.abc import Sequence

from shard_dialect.ir.bindings import ir
from shard_dialect.ir.building.build import create, dense
from shard_dialect.ir.building.reductions import reduction_with_identity
from shard_dialect.model import ShardingRule, Windows
from shard_dialect.ops.factors import Factors, Query
from shard_dialect.ops.op_record import Later, OpRecord
from shard_dialect.ops.partial_values import joins, moves
from shard_dialect.ops.partitioned_op import PartitionedOp, PartitionFunction
from shard_dialect.ops.scalar_functions import Trait
from shard_dialect.ops.window_shards import inside, joined_along, padding_of, partition_joined


def slice_(query: Query) -> ShardingRule:
    """Dimensions taken in full pass; sliced ones are permuted, and read in windows."""
    begins = shape_in(query.op.operands[1])
    factors = Factors(query)
    for dim, (size, sliced) in enumerate(zip(factors.operands[0], factors.results[0], strict=True)):
        if size == sliced:
            factors.add(size, (dim,), (dim,))
        else:
            read = Windows(size, sliced, 1, 1, -begins[dim]) if begins else None
            factors.add(size, (dim,), (dim,), "permuted", windows=[read])
    return factors.rule("")


def pad(query: Query) -> ShardingRule:
    """Padded dimensions are permuted; read in windows if the value is a reduction's identity."""
    padding = shape_in(query.op.operands[1])
    fill = reduction_with_identity(query.op.operands[2])
    factors = Factors(query)
    for dim, (size, padded) in enumerate(zip(factors.operands[0], factors.results[0], strict=True)):
        if size == padded:
            factors.add(size, (dim,), (dim,))
        else:
            read = (
                inside(Windows(size, padded, 1, 1, padding[2 * dim], fill=fill))
                if padding
                else None
            )
            factors.add(size, (dim,), (dim,), "permuted", windows=[read])
    return factors.rule("")


def concat(query: Query) -> ShardingRule:
    """The rule of `concat`, along its attribute `axis`."""
    return joined_along(query, query.op.attributes["axis"].value)


def shape_in(value: ir.Value) -> list[int]:
    """The sizes of a constant shape; [] if it is not a constant."""
    owner = value.owner
    if isinstance(owner, ir.Block) or owner.name != "tosa.const_shape":
        return []
    return list(owner.operation.attributes["values"])


def partition_slice(partitioned: PartitionedOp) -> None:
    """Set local sizes, and begin 0 in split dimensions."""
    begins = shape_in(partitioned.op.operands[1])
    if begins:
        is_split = map(partitioned.result.is_split, range(len(begins)))
        set_shape(
            partitioned.op,
            1,
            [0 if split else at for split, at in zip(is_split, begins, strict=True)],
        )
    set_shape(partitioned.op, 2, partitioned.result.shape)


def partition_pad(partitioned: PartitionedOp) -> None:
    """Set the padding of a shard."""
    padding = shape_in(partitioned.op.operands[1])
    if padding:
        pairs = list(zip(padding[::2], padding[1::2], strict=True))
        ends = [padding_of(partitioned, dim, each) for dim, each in enumerate(pairs)]
        set_shape(partitioned.op, 1, [size for each in ends for size in each])


def partition_concat(partitioned: PartitionedOp) -> None:
    """Replace the op on shards: see `partition_joined`."""
    partition_joined(partitioned, partitioned.op.attributes["axis"].value)


def partition_shape(operand_number: int) -> PartitionFunction:
    """A partition function that sets operand number `operand_number`, the result's shape."""

    def partition_at(partitioned: PartitionedOp) -> None:
        set_shape(partitioned.op, operand_number, partitioned.result.shape)

    return partition_at


def set_shape(op: ir.Operation, operand_number: int, shape: Sequence[int]) -> None:
    """Replace operand number `operand_number` by a constant shape; that of a scalar stays."""
    if not shape:  # of which the bindings make no constant
        return
    sizes = dense(shape, ir.IndexType.get())
    with ir.InsertionPoint(op), op.location:
        constant = create(
            "tosa.const_shape", [op.operands[operand_number].type], [], {"values": sizes}
        )
    op.operands[operand_number] = constant.results[0]


_SAMPLES = "testing.samples.tosa_samples"
RECORDS: dict[str, OpRecord] = {
    "tosa.concat": OpRecord(
        concat,
        sample=Later(f"{_SAMPLES}:concat"),
        partition=partition_concat,
        partial=joins,
        traits=Trait.MOVES,
    ),
    "tosa.pad": OpRecord(
        pad,
        sample=Later(f"{_SAMPLES}:pad"),
        partition=partition_pad,
        traits=Trait.MOVES | Trait.BY_NEIGHBOURS,
    ),
    "tosa.slice": OpRecord(
        slice_,
        sample=Later(f"{_SAMPLES}:slice_"),
        partition=partition_slice,
        partial=moves,
        traits=Trait.SLICES | Trait.BY_NEIGHBOURS,
    ),
}
