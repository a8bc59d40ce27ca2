"""`bufferization` ops on tensors, and the globals of `ml_program`.

Every device has its own copy of a global. Loads and stores are unsharded, so that all copies stay
equal.
"""

from __future__ import annotations

from shard_dialect.model import ShardingRule
from shard_dialect.rules.dialects.arith_math import elementwise, no_factors
from shard_dialect.rules.op_record import OpRecord
from shard_dialect.rules.rule_query import Query


def materialize_in_destination(query: Query) -> ShardingRule | None:
    """Elementwise where the destination is a tensor; buffers are not split."""
    return elementwise(query) if query.results else no_factors(query)


RECORDS: dict[str, OpRecord] = {
    "bufferization.alloc_tensor": OpRecord(elementwise),
    "bufferization.materialize_in_destination": OpRecord(materialize_in_destination),
    "bufferization.to_buffer": OpRecord(no_factors),
    "bufferization.to_tensor": OpRecord(no_factors),
    "ml_program.global_load": OpRecord(no_factors),
    "ml_program.global_load_const": OpRecord(no_factors),
    "ml_program.global_load_graph": OpRecord(no_factors),
    "ml_program.global_store": OpRecord(no_factors),
    "ml_program.global_store_graph": OpRecord(no_factors),
}
