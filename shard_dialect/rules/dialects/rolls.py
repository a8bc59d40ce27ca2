"""`mesh.roll`: the elements of a tensor move along a dimension, and come back at the other end.

    roll by 1 of 64 elements on 4 devices     the last element of each shard goes to the next device

The shards of the dimension are equal, so that all devices send and keep as many elements.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from shard_dialect.ir.bindings import ir
from shard_dialect.ir.building.build import empty, extract_slice, insert_slice_at
from shard_dialect.model import ShardingError, ShardingRule
from shard_dialect.rules.factors import Factors
from shard_dialect.rules.partitioned_op import PartitionedOp
from shard_dialect.rules.rule_query import Query


def roll(query: Query) -> ShardingRule | None:
    """Each dimension passes; the one that is rolled is not split unevenly."""
    factors = Factors(query)
    rolled, _ = _read(query.op)
    for dim, size in enumerate(factors.operands[0]):
        factors.add(size, (dim,), (dim,), blocked=dim == rolled)
    return factors.rule()


def partition_roll(partitioned: PartitionedOp) -> None:
    """Take the last elements from the devices before, and the first ones from those after them."""
    op, shard = partitioned.op, partitioned.result
    dim, by = _read(op)
    if shard.is_uneven(dim) or any(shard.halos[dim]):
        raise ShardingError(f"rolls dimension {dim}, whose shards are not equal")
    hops, last = divmod(by, shard.shape[dim] or 1)

    def from_before(distance: int, part: ir.Value) -> ir.Value:
        is_own = distance % shard.devices[dim] == 0
        return part if is_own else shard.from_before(dim, distance, part)

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
        result = empty(value.type).results[0]
        for moved, source, target, count in (
            (ends, size - last, 0, last),
            (begins, 0, last, size - last),
        ):
            if count:
                part = moved(extract_slice(value, source, count, dim))
                result = insert_slice_at(result, part, dim, target)
    op.results[0].replace_all_uses_with(result)
    op.erase()
