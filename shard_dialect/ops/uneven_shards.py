"""The factors that may be split unevenly, and the contents of uneven shards' padding.

The bodies of `linalg`'s ops ignore padding themselves (`ops.dialects.linalg_bodies`).
"""

from __future__ import annotations

from shard_dialect.ir.bindings import ir
from shard_dialect.ir.building.loops_and_masks import as_index, keep_first, keep_within
from shard_dialect.ir.building.reductions import identity_value
from shard_dialect.ir.walk import walk
from shard_dialect.model import ShardingRule
from shard_dialect.ops.dialects.linalg_bodies import HARMLESS, may_be_padded
from shard_dialect.ops.op_table import record_of
from shard_dialect.ops.padding import Filling, PaddingFunction, anything, identities
from shard_dialect.ops.partitioned_op import PartitionedOp


def may_be_uneven(op: ir.Operation, rule: ShardingRule) -> frozenset[int]:
    """The factors of the op that may be split unevenly."""
    factors = rule.may_be_uneven
    record = record_of(op)
    may_be_padded = record.may_be_padded if record else None
    if may_be_padded is not None and not may_be_padded(op, rule):
        return frozenset()
    reduced = frozenset(rule.reduction_of)
    if not reduced & factors or _padding(op, rule) is not None:
        return factors
    return factors - reduced


def may_have_offsets(op: ir.Operation, rule: ShardingRule) -> frozenset[int]:
    """The factors of the op whose shards may begin at offsets; windows need equal shards."""
    return may_be_uneven(op, rule) - rule.windowed_factors


def may_have_halos(op: ir.Operation, rule: ShardingRule) -> bool:
    """Whether the op may compute its result's halos from its operands' halos.

    Each element of the result must depend on the elements at its own index only, and no element
    outside of the tensor may end the program.
    """
    record = record_of(op)
    if (
        not rule.is_elementwise
        or not any(rule.operands)
        or (record and record.harmless is not None)
    ):
        return False
    if op.name.startswith("linalg."):
        inside = {each.name for each in walk(op)}
        return may_be_padded(op, rule) and not inside & {"linalg.index", *HARMLESS}
    return len(op.regions) == 0 and record is not None and record.partition is None


def _padding(op: ir.Operation, rule: ShardingRule) -> list[Filling] | None:
    padding = _padding_function(op)
    return padding(op, rule) if padding else None


def _padding_function(op: ir.Operation) -> PaddingFunction | None:
    record = record_of(op)
    return record.padding if record is not None else None


def fill_padding(partitioned: PartitionedOp) -> None:
    """Create ops before an op that fill the padding of its operands as the op needs it."""
    op, rule = partitioned.op, partitioned.rule
    shards = [shard for shard in partitioned.operands if shard is not None]
    if not any(shard.is_uneven(dim) for shard in shards for dim in range(len(shard.shape))):
        return
    fillings = _padding(op, rule) or []
    if any(shard.offsets for shard in shards) and _padding_function(op) is anything:
        fillings = identities(op, rule)  # indices of other shards may be those of padding
    for filling in [*_past_ends(rule), *fillings]:
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


def fill_halos(partitioned: PartitionedOp) -> None:
    """Create ops after an op that set the halos of its results to the fill, outside of the tensor.

    The op has computed the rest of the halos from the halos of its operands.
    """
    op = partitioned.op
    for result, shard in zip(op.results, partitioned.results, strict=True):
        dims = [dim for dim, halo in enumerate(shard.halos) if any(halo)] if shard else []
        if shard is None or not dims:
            continue
        with ir.InsertionPoint.after(op), op.location:
            firsts = {dim: as_index(shard.first(dim)) for dim in dims}
            ends = {dim: as_index(shard.end(dim)) for dim in dims}
            outside = identity_value(shard.fill, result.type.element_type)
            filled = keep_within(result, firsts, ends, outside)
        result.replace_all_uses_except(filled, filled.owner.operation)


def _past_ends(rule: ShardingRule) -> list[Filling]:
    """The identities that windows must read after the last element."""
    return [
        Filling(each.operand, frozenset({each.factor}), each.windows.fill)
        for each in rule.windows
        if each.windows.fill is not None and not each.windows.stay_in_bounds
    ]
