"""Tensors that are put together along a dimension, on shards: each device takes what is in its own.

%r = concat(%x, %y)           of 5 and 3 elements: a device has 4 of the 8, from 4 on
%a, %b                        what there is of %x and %y in its shard, as far as neighbours go
%r = where index < 1 %a, elsewhere %b
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

from shard_dialect.ir.bindings import ir
from shard_dialect.ir.building.masking import as_index, switch_at
from shard_dialect.model import ShardingRule, Windows
from shard_dialect.model.rule import Role
from shard_dialect.rules.factors import Factors, Kind
from shard_dialect.rules.partitioning import PartitionedOp, places
from shard_dialect.rules.query import Query


def joined_along(query: Query, along: int, kind: Kind = "whole", role: Role = "") -> ShardingRule:
    """All dimensions pass; of that joined a shard of the result reads each operand where it is.

    To propagation that is a factor of this `kind`.
    """
    factors = Factors(query)
    for dim, size in enumerate(factors.results[0]):
        if dim == along:
            factors.add_to_all(dim, size, kind, windows=_windows(query, dim))
        else:
            factors.add_to_all(dim, size)
    return factors.rule(role)


def _windows(query: Query, dim: int) -> list[Windows | None]:
    """Those of each operand."""
    made = query.results[0]
    sizes = [shape[dim] for shape in query.operands if shape is not None]
    if made is None:
        return []
    return [
        Windows(size, made[dim], 1, 1, begin)
        for size, begin in zip(sizes, _begins(sizes), strict=True)
    ]


def _begins(sizes: Sequence[int]) -> list[int]:
    return [0, *accumulate(sizes)][:-1]


def partition_joined(partitioned: PartitionedOp, dim: int) -> None:
    """Put the operands' parts, each as large as the shard of the result, in each other's places."""
    made = partitioned.result
    if not made.is_split(dim):
        return
    op, size = partitioned.op, made.shape[dim]
    sizes = [shard.whole[dim] for shard in partitioned.operands if shard is not None]
    with ir.InsertionPoint(op), op.location:
        value = op.operands[0]
        for operand, begin in list(zip(op.operands, _begins(sizes), strict=True))[1:]:
            starts = [begin - size * device for device in places(made.devices[dim])]
            at = as_index(made.own(dim, [min(max(start, 0), size) for start in starts]))
            value = switch_at(value, operand, dim, at)
    op.results[0].replace_all_uses_with(value)
    op.erase()
