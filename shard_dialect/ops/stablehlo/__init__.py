"""The records of StableHLO's ops, one file for each family of ops.

The factors of each rule, their order and which are blocked are Shardy's, so that shardings
propagate as in Shardy. Which factors may be split is stricter than in Shardy: an op that runs on
shards must compute exactly the shards of its result.
"""

from __future__ import annotations

from shard_dialect.ops.op_record import Later, OpRecord, of_dialect
from shard_dialect.ops.scalar_functions import NO_TRAIT, Trait
from shard_dialect.ops.stablehlo import (
    collective_rules,
    contractions,
    custom_call,
    data_movement,
    dynamic_slices,
    elementwise_ops,
    gather_scatter,
    linear_algebra,
    reduction_rules,
)
from shard_dialect.ops.stablehlo.facets import python

_FAMILIES = (
    collective_rules,
    contractions,
    custom_call,
    data_movement,
    dynamic_slices,
    elementwise_ops,
    gather_scatter,
    linear_algebra,
    reduction_rules,
)
RECORDS = {
    **of_dialect(
        "stablehlo", {name: record for each in _FAMILIES for name, record in each.RECORDS.items()}
    ),
    **of_dialect("chlo", elementwise_ops.CHLO),
}
WITHOUT_RULE: dict[str, OpRecord] = {
    **{
        f"stablehlo.{name}": OpRecord(operations=0, traits=traits)
        for names, traits in {
            "case get_tuple_element if partition_id replica_id return tuple while": NO_TRAIT,
            "broadcast": Trait.REPEATS,
            "copy dynamic_broadcast_in_dim dynamic_gather dynamic_iota dynamic_pad dynamic_reshape "
            "get_dimension_size real_dynamic_slice": Trait.EXACT,
        }.items()
        for name in names.split()
    },
    "stablehlo.optimization_barrier": OpRecord(
        operations=0,
        python=python("same", "tensor_ops"),
        shapes=Later("passes.specialize.shape_rules:in_pairs"),
        traits=Trait.EXACT,
    ),
}
