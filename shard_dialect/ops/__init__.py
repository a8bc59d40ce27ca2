"""The records of ops: their sharding rules and other facets (`op_record`, `op_table`)."""

from shard_dialect.ops.factors import Query
from shard_dialect.ops.op_record import OpRecord
from shard_dialect.ops.op_table import is_cheap, record_of, rule_of, sharding_rule
from shard_dialect.ops.partitioned_op import PartitionedOp, Shard

__all__ = [
    "OpRecord",
    "PartitionedOp",
    "Query",
    "Shard",
    "is_cheap",
    "record_of",
    "rule_of",
    "sharding_rule",
]
