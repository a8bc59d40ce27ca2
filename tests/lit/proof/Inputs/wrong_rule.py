"""A plugin whose rule is wrong: it says that a device may reverse its own shard."""

import shard_dialect as sd


@sd.sharding_rule("stablehlo.reverse")
def reverse(query: sd.Query) -> sd.ShardingRule:
    return sd.ShardingRule.einsum("i->i", query.operands, query.results)
