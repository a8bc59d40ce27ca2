"""`mesh` ops that have sharding rules.

`mesh.roll`: the elements of a tensor move along a dimension, and come back at the other end.

    roll by 1 of 64 elements on 4 devices     the last element of each shard goes to the next device

The shards of the dimension are equal, so that all devices send and keep as many elements.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from shard_dialect.ir.bindings import ir
from shard_dialect.ir.building.build import empty, extract_slice, insert_slice_at, replace_op
from shard_dialect.ir.mesh.attributes import STAGES
from shard_dialect.ir.mesh.mesh_dialect import TRANSFER
from shard_dialect.model import ShardingError, ShardingRule
from shard_dialect.ops.factors import Factors, Query, elementwise
from shard_dialect.ops.op_record import OpRecord
from shard_dialect.ops.partitioned_op import PartitionedOp, device_indices


def roll(query: Query) -> ShardingRule | None:
    """Each dimension passes; the one that is rolled is not split unevenly."""
    factors = Factors(query)
    rolled, by = _read(query.op)
    for dim, size in enumerate(factors.operands[0]):
        factors.add(size, (dim,), (dim,), blocked=dim == rolled)
    return replace(factors.rule(), rolled=((rolled, by),))


def partition_roll(partitioned: PartitionedOp) -> None:
    """Take the last elements from the devices before, and the first ones from those after them."""
    op, shard = partitioned.op, partitioned.result
    dim, by = _read(op)
    if shard.is_uneven(dim) or any(shard.halos[dim]):
        raise ShardingError(f"rolls dimension {dim}, whose shards are not equal")
    hops, last = divmod(by, shard.shape[dim] or 1)

    def from_before(distance: int, part: ir.Value) -> ir.Value:
        devices = shard.devices[dim]
        to = [(device + distance) % devices for device in device_indices(devices)]
        return part if distance % devices == 0 else shard.permuted(dim, to, part)

    _replace(op, dim, last, lambda part: from_before(hops + 1, part), partial(from_before, hops))


def erase_roll(op: ir.Operation) -> None:
    """Replace `op`, on a tensor that is not split, by slices.

    Raises `ShardingError` for a tensor of unknown size.
    """
    dim, by = _read(op)
    type_ = op.operands[0].type
    if not type_.has_static_shape:
        raise ShardingError(f"rolls dimension {dim} of {type_}, whose size is not known")
    _replace(op, dim, by % (type_.shape[dim] or 1), lambda part: part, lambda part: part)


def _read(op: ir.Operation) -> tuple[int, int]:
    return op.attributes["tensor_axis"].value, op.attributes["by"].value


_Moved = Callable[[ir.Value], ir.Value]


def _replace(op: ir.Operation, dim: int, last: int, ends: _Moved, begins: _Moved) -> None:
    """By the `last` elements of the operand, moved by `ends`, and the others, by `begins`."""
    with ir.InsertionPoint(op), op.location:
        value, size = op.operands[0], op.operands[0].type.shape[dim]
        result = empty(value.type)
        for moved, source, target, count in (
            (ends, size - last, 0, last),
            (begins, 0, last, size - last),
        ):
            if count:
                part = moved(extract_slice(value, source, count, dim))
                result = insert_slice_at(result, part, dim, target)
    replace_op(op, result)


def passed_on(query: Query) -> ShardingRule | None:
    """Elementwise for a permutation between stages; `None` for other transfers."""
    attributes = query.op.attributes
    return elementwise(query) if STAGES in attributes and "mesh_axis" in attributes else None


def transfer(query: Query) -> ShardingRule | None:
    """Dimensions that are passed on as a whole pass; so do all of a tensor that takes a part."""
    factors = Factors(query)
    source, *into = factors.operands
    (result,) = factors.results
    for dim, size in enumerate(source):
        is_whole = size == result[dim]
        if into:
            factors.add(result[dim], (dim if is_whole else None, dim), (dim,))
        elif is_whole:
            factors.add(size, (dim,), (dim,))
    return factors.rule()


RECORDS: dict[str, OpRecord] = {
    "mesh.collective_permute": OpRecord(passed_on),
    TRANSFER: OpRecord(transfer),
    "mesh.roll": OpRecord(roll, partition=partition_roll),
}
