"""Gathers and reductions move down, to where the data is smallest.

*Gathers*: what can work on pieces does, and its result is gathered, if that is no larger.

    %1 = "mesh.all_gather"(%0)      [[], [0]] -> [[], []]
    %2 = arith.maximumf %1, %z
      becomes
    %1 = "mesh.local_split"(%z)     free
    %2 = arith.maximumf %0, %1      half the work on two devices
    %3 = "mesh.all_gather"(%2)

*Reductions*: linear ops work on partial values; sums of partial sums are reduced once, and what is
summed up is reduced when it is small. (RFC, all-reduce reassociation.)

    %2 = "mesh.all_reduce"(%0)
    %3 = "mesh.all_reduce"(%1)
    %4 = arith.addf %2, %3
      becomes
    %2 = arith.addf %0, %1          partial like its operands
    %4 = "mesh.all_reduce"(%2)
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

from shard_dialect.ir.bindings import ir
from shard_dialect.ir.shardings import Shardings
from shard_dialect.model import ShardingError
from shard_dialect.passes.collectives.rewrite import CollectivePass, move_past, sources


@dataclass(frozen=True)
class SinkGathers(CollectivePass):
    """Gather after ops that can work on pieces, where that is no dearer."""

    name = "sink-gathers"

    def improve_at(self, reshard: ir.Operation, shardings: Shardings) -> bool:
        """Move a gather down. One that is also a reduction reduces first."""
        source, target = sources(reshard)
        if source.split_axes == target.split_axes or not set(target.partial) <= set(source.partial):
            return False
        pieces = source.with_partial(target.partial, target.reduction)
        return move_past(reshard, pieces, shardings)


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
