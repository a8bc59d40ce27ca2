"""StableHLO's own collectives.

    all_gather dim 1     ([a, b]) -> ([a, c]) whole={a, b, c}

In a program on global tensors, these collectives exchange global tensors between devices. On
shards, a device would exchange its shard for another shard. So all factors are whole; dimensions
that the collective does not change still pass shardings on. In manual computations such dimensions
may be split, too (`ops.op_table`).
"""

from __future__ import annotations

from collections.abc import Callable

from shard_dialect.model import ShardingRule
from shard_dialect.ops.factors import Factors, Kind, Query
from shard_dialect.ops.op_record import OpRecord
from shard_dialect.ops.stablehlo.attribute_reading import integer
from shard_dialect.ops.stablehlo.data_movement import all_replicated
from shard_dialect.ops.stablehlo.facets import sample


def changing(
    *names: str, staying: Kind = "need_replication"
) -> Callable[[Query], ShardingRule | None]:
    """A rule function for collectives that change the dimensions given by attributes `names`.

    The other dimensions have a factor of kind `staying`.
    """

    def rule(query: Query) -> ShardingRule | None:
        factors = Factors(query)
        shape, result = factors.operands[0], factors.results[0]
        changed = dict.fromkeys(integer(query.op, name) for name in names)
        operands, results = len(factors.operands), len(factors.results)
        for dim, size in enumerate(shape):
            if dim not in changed:
                factors.add_to_all(dim, size, staying)
        for dim in changed:
            factors.add(shape[dim], (dim,) * operands, (), "need_replication")
            factors.add(result[dim], (), (dim,) * results, "need_replication")
        return factors.rule()

    return rule


_DEVICES = "it speaks of devices, of which the unsharded program has one"
RECORDS: dict[str, OpRecord] = {
    **{
        name: OpRecord(
            all_replicated, sample=sample("collective", name), operations=0, not_run=_DEVICES
        )
        for name in (
            "all_reduce",
            "collective_broadcast",
            "collective_permute",
            "cross-replica-sum",
        )
    },
    **{
        name: OpRecord(
            changing(*attributes), sample=sample("collective", name), operations=0, not_run=_DEVICES
        )
        for name, attributes in {
            "all_gather": ("all_gather_dim",),
            "all_to_all": ("split_dimension", "concat_dimension"),
            "reduce_scatter": ("scatter_dimension",),
        }.items()
    },
}
