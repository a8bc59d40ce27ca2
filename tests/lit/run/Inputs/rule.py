"""A plugin: a rule for `tensor.cast`."""

from shard_dialect import Query, ShardingRule, sharding_rule


@sharding_rule("tensor.cast")
def cast(query: Query) -> ShardingRule:
    return ShardingRule.einsum("ij->ij", query.operands, query.results)
