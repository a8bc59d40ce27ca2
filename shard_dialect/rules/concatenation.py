"""Concatenation on shards: each device selects the elements of its shard of the result.

%r = concat(%x, %y)           of 5 and 3 elements: the second device has elements 4 to 7
%a, %b                        %x and %y with halos, each as large as the shard of the result
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
from shard_dialect.rules.partitioned_op import PartitionedOp, device_indices
from shard_dialect.rules.rule_query import Query


def joined_along(
    query: Query, along: int, kind: Kind = "need_replication", role: Role = ""
) -> ShardingRule:
    """The rule of a concatenation along dimension `along`; all other dimensions pass.

    The joined dimension is a factor of this `kind`, which each operand is read along in windows.
    """
    factors = Factors(query)
    for dim, size in enumerate(factors.results[0]):
        if dim == along:
            factors.add_to_all(dim, size, kind, windows=_windows(query, dim))
        else:
            factors.add_to_all(dim, size)
    return factors.rule(role)


def _windows(query: Query, dim: int) -> list[Windows | None]:
    """The windows in which the result reads each operand along `dim`."""
    result = query.results[0]
    sizes = [shape[dim] for shape in query.operands if shape is not None]
    if result is None:
        return []
    return [
        Windows(size, result[dim], 1, 1, begin)
        for size, begin in zip(sizes, _begins(sizes), strict=True)
    ]


def _begins(sizes: Sequence[int]) -> list[int]:
    return [0, *accumulate(sizes)][:-1]


def partition_joined(partitioned: PartitionedOp, dim: int) -> None:
    """Replace the op by selects between its operands, which are as large as the result's shard."""
    result = partitioned.result
    if not result.is_split(dim):
        return
    op, size = partitioned.op, result.shape[dim]
    sizes = [shard.global_shape[dim] for shard in partitioned.operands if shard is not None]
    with ir.InsertionPoint(op), op.location:
        value = op.operands[0]
        for operand, begin in list(zip(op.operands, _begins(sizes), strict=True))[1:]:
            starts = [begin - size * device for device in device_indices(result.devices[dim])]
            at = as_index(result.own(dim, [min(max(start, 0), size) for start in starts]))
            value = switch_at(value, operand, dim, at)
    op.results[0].replace_all_uses_with(value)
    op.erase()
