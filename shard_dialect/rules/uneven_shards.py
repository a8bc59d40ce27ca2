"""Which factors may be split unevenly, and what fills the padding of uneven shards.

The bodies of `linalg`'s ops ignore padding themselves (`rules.dialects.linalg_bodies`).
"""

from __future__ import annotations

from shard_dialect.ir.bindings import ir
from shard_dialect.ir.building.masking import as_index, keep_first
from shard_dialect.model import ShardingRule
from shard_dialect.rules.dialects.linalg_bodies import may_be_padded
from shard_dialect.rules.op_table import record_of
from shard_dialect.rules.padding import Filling
from shard_dialect.rules.partitioned_op import PartitionedOp


def may_be_uneven(op: ir.Operation, rule: ShardingRule) -> frozenset[int]:
    """The factors of the op that may be split unevenly."""
    factors = rule.may_be_uneven
    if op.name.startswith("linalg.") and not may_be_padded(op):
        return frozenset()
    reduced = frozenset(rule.reduction_of)
    if not reduced & factors or _padding(op, rule) is not None:
        return factors
    return factors - reduced


def _padding(op: ir.Operation, rule: ShardingRule) -> list[Filling] | None:
    record = record_of(op)
    return record.padding(op, rule) if record and record.padding else None


def fill_padding(partitioned: PartitionedOp) -> None:
    """Create ops before an op that fill the padding of its operands as the op needs it."""
    op, rule = partitioned.op, partitioned.rule
    shards = [shard for shard in partitioned.operands if shard is not None]
    if not any(shard.is_uneven(dim) for shard in shards for dim in range(len(shard.shape))):
        return
    for filling in [*_past_ends(rule), *(_padding(op, rule) or ())]:
        dims, shard = rule.windowed_operands[filling.operand], partitioned.operands[filling.operand]
        if dims is None or shard is None:
            continue
        along = [
            dim
            for dim, factors in enumerate(dims)
            if shard.is_uneven(dim) and filling.factors & set(factors)
        ]
        if along:
            with ir.InsertionPoint(op), op.location:
                ends = {dim: as_index(shard.end(dim)) for dim in along}
                value = op.operands[filling.operand]
                other = filling.element(value.type.element_type)
                op.operands[filling.operand] = keep_first(value, ends, other)


def _past_ends(rule: ShardingRule) -> list[Filling]:
    """The identities that windows must read after the last element."""
    return [
        Filling(each.operand, frozenset({each.factor}), each.windows.fill)
        for each in rule.windows
        if each.windows.fill is not None and not each.windows.stay_in_bounds
    ]
