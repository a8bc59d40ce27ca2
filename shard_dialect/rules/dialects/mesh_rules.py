"""`mesh` ops that have sharding rules."""

from __future__ import annotations

from shard_dialect.ir.mesh.attributes import STAGES
from shard_dialect.ir.mesh.mesh_dialect import TRANSFER
from shard_dialect.model import ShardingRule
from shard_dialect.rules.dialects.arith_math import elementwise
from shard_dialect.rules.dialects.rolls import partition_roll, roll
from shard_dialect.rules.factors import Factors
from shard_dialect.rules.op_record import OpRecord
from shard_dialect.rules.rule_query import Query


def passed_on(query: Query) -> ShardingRule | None:
    """Elementwise for a permutation between stages; `None` for other transfers."""
    attributes = query.op.attributes
    return elementwise(query) if STAGES in attributes and "mesh_axis" in attributes else None


def transfer(query: Query) -> ShardingRule | None:
    """Dimensions that are passed on as a whole pass; so do all of what another tensor is put in."""
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
