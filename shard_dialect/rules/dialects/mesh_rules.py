"""`mesh` ops that have sharding rules."""

from __future__ import annotations

from shard_dialect.ir.mesh.attributes import STAGES
from shard_dialect.model import ShardingRule
from shard_dialect.rules.dialects.arith_math import elementwise
from shard_dialect.rules.dialects.rolls import partition_roll, roll
from shard_dialect.rules.op_record import OpRecord
from shard_dialect.rules.rule_query import Query


def passed_on(query: Query) -> ShardingRule | None:
    """Elementwise for a permutation between stages; `None` for other transfers."""
    attributes = query.op.attributes
    return elementwise(query) if STAGES in attributes and "mesh_axis" in attributes else None


RECORDS: dict[str, OpRecord] = {
    "mesh.collective_permute": OpRecord(passed_on),
    "mesh.roll": OpRecord(roll, partition=partition_roll),
}
