"""Op records: all that the sharding passes need to know of an op.

    OpRecord(gather, partition=partition_gather, padding=anything, partial=moves)

Every record has a rule. On shards, most ops are the same op on smaller tensors, and need only the
rule. The other fields are for the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from shard_dialect.ir.bindings import ir
from shard_dialect.model import ShardingRule
from shard_dialect.rules.padding import PaddingFunction
from shard_dialect.rules.partial_values import PartialFunction
from shard_dialect.rules.partitioned_op import PartitionFunction
from shard_dialect.rules.rule_query import Query

RuleFunction = Callable[[Query], "ShardingRule | str | None"]
LoweringFunction = Callable[[ir.Operation], Sequence[ir.Value]]


@dataclass(frozen=True, slots=True)
class OpRecord:
    """What is registered for the ops with one name."""

    rule: RuleFunction
    """Returns the sharding rule for an op and its global shapes, as a `ShardingRule` or as text.

    It returns `None` if this op has none; the op then runs replicated, with a warning.
    """
    partition: PartitionFunction | None = None
    """Changes sizes and positions in attributes and operands from global to local ones."""
    padding: PaddingFunction | None = None
    """What operands must hold in the padding of uneven shards; without it, anything."""
    partial: PartialFunction | None = None
    """Which operands must be partial for the result to be; without it, partial operands are
    reduced first."""
    lowering: LoweringFunction | None = None
    """Creates, at the insertion point, ops that upstream's passes lower; returns their results.

    This is for ops of a user's own dialect, on shards. `lower` replaces the op by them.
    """


def alike(dialect: str, names: Iterable[str], record: OpRecord) -> dict[str, OpRecord]:
    """A table with the same record for each of `names` in a dialect."""
    return {f"{dialect}.{name}": record for name in names}
