"""Sharding rules: what the passes need to know of ops, by their names (`op_record`, `registry`)."""

from shard_dialect.rules.op_record import OpRecord
from shard_dialect.rules.partitioning import PartitionedOp, Shard
from shard_dialect.rules.query import Query
from shard_dialect.rules.registry import record_of, rule_of, sharding_rule

__all__ = ["OpRecord", "PartitionedOp", "Query", "Shard", "record_of", "rule_of", "sharding_rule"]
