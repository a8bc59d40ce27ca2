"""Move reductions down past linear ops, which can work on partial values.

    %2 = "mesh.all_reduce"(%0)
    %3 = "mesh.all_reduce"(%1)
    %4 = arith.addf %2, %3
      becomes
    %2 = arith.addf %0, %1          partial like its operands
    %4 = "mesh.all_reduce"(%2)

Such ops are sums, differences, scalings, products with a value that is not partial, transposes,
reshapes, slices, sums over dimensions, and maxima of maxima (`rules.partial_values`). All-reduces
and reduce-scatters move likewise. An operand that is added and not partial is masked, so that one
device adds it. For example, the gradient of a norm's scale then reduces a row instead of an
activation. An op that is not linear, such as an exponential or a product of two partial sums, still
gets reduced operands. (RFC, all-reduce reassociation.)
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

from shard_dialect.model import ShardingError
from shard_dialect.passes.optimize.collective_pass import CollectivePass, sources
from shard_dialect.passes.optimize.graph.function_graph import FunctionGraph
from shard_dialect.passes.optimize.graph.graph_elements import GraphOp
from shard_dialect.passes.optimize.move_reshard import move_past


@dataclass(frozen=True)
class SinkReductions(CollectivePass):
    """Reduce after linear ops, where there is less to reduce."""

    name = "sink-reductions"

    narrow: bool = False
    """Let a conversion to narrower floats round partial sums before they are reduced."""

    def improve_at(self, reshard: GraphOp, graph: FunctionGraph) -> bool:
        """Move a reduction down: in the source sharding, or partial in the target's split."""
        source, target = sources(reshard, graph)
        if not set(source.partial) - set(target.partial):
            return False
        candidates = [source]
        with suppress(ShardingError):  # of a reduce-scatter: the axes split the result
            candidates.append(target.with_partial(source.partial, source.reduction))
        return any(
            move_past(reshard, candidate, graph, narrow=self.narrow)
            for candidate in dict.fromkeys(candidates)
        )
