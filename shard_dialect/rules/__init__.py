"""Sharding rules, and what else the passes must know of each op (`op_record`, `op_table`)."""

from shard_dialect.rules.op_record import OpRecord
from shard_dialect.rules.op_table import record_of, rule_of, sharding_rule
from shard_dialect.rules.partitioned_op import PartitionedOp, Shard
from shard_dialect.rules.rule_query import Query

__all__ = ["OpRecord", "PartitionedOp", "Query", "Shard", "record_of", "rule_of", "sharding_rule"]
