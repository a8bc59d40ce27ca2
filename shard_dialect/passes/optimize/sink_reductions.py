"""Linear ops work on partial values; what they make is reduced once, where it is small.

    %2 = "mesh.all_reduce"(%0)
    %3 = "mesh.all_reduce"(%1)
    %4 = arith.addf %2, %3
      becomes
    %2 = arith.addf %0, %1          partial like its operands
    %4 = "mesh.all_reduce"(%2)

Through sums, differences, scalings, products with what is not partial, transposes, reshapes,
slices, sums over dimensions, and maxima of maxima (`rules.partial_values`); reduce-scatters
likewise. What is added and is not partial is masked: one device adds it. The gradient of a norm's
scale so reduces a row, not an activation. What is not linear, an exponential or a product of two
partial sums, is given whole operands as before. (RFC, all-reduce reassociation.)
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

from shard_dialect.ir.bindings import ir
from shard_dialect.ir.mesh.sharding_attributes import Shardings
from shard_dialect.model import ShardingError
from shard_dialect.passes.optimize.move_reshard import move_past
from shard_dialect.passes.optimize.rewrite_reshards import CollectivePass, sources


@dataclass(frozen=True)
class SinkReductions(CollectivePass):
    """Reduce after linear ops, where there is less to reduce."""

    name = "sink-reductions"

    narrow: bool = False
    """Let a conversion to narrower floats round each part of a sum, before it is reduced."""

    def improve_at(self, reshard: ir.Operation, shardings: Shardings) -> bool:
        """Move a reduction down: with what splits the result, or as the operand lies."""
        source, target = sources(reshard)
        if not set(source.partial) - set(target.partial):
            return False
        candidates = [source]
        with suppress(ShardingError):  # of a reduce-scatter: the axes split the result
            candidates.append(target.with_partial(source.partial, source.reduction))
        return any(
            move_past(reshard, wanted, shardings, narrow=self.narrow)
            for wanted in dict.fromkeys(candidates)
        )
