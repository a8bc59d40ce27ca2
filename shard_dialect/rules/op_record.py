"""All that the sharding passes need to know of an op, in one record.

    OpRecord(gather, partition=partition_gather, padding=anything, partial=moves)

The rule is what every op needs. Most ops on shards are the same op on smaller tensors, and need no
more; the other fields are for those that are not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from shard_dialect.ir.bindings import ir
from shard_dialect.model import ShardingRule
from shard_dialect.rules.padding import PaddingFunction
from shard_dialect.rules.partial_values import PartialFunction
from shard_dialect.rules.partitioning import PartitionFunction
from shard_dialect.rules.query import Query

RuleFunction = Callable[[Query], "ShardingRule | str | None"]
LoweringFunction = Callable[[ir.Operation], Sequence[ir.Value]]


@dataclass(frozen=True, slots=True)
class OpRecord:
    """What is registered of one op, by its name."""

    rule: RuleFunction
    """Gives the sharding rule for an op and its global shapes, as a `ShardingRule` or as text.

    `None` where the op, as it stands, has none; it then runs replicated, with a warning.
    """
    partition: PartitionFunction | None = None
    """Changes what attributes and operands say of sizes and positions to what holds on shards."""
    padding: PaddingFunction | None = None
    """What operands must hold in the padding of uneven shards, where that is not all the same."""
    partial: PartialFunction | None = None
    """Which operands must be partial for the result to be; without it, partial operands are
    reduced first."""
    lowering: LoweringFunction | None = None
    """Writes, at the insertion point, ops that upstream's passes lower; gives their results.

    For ops of a user's own dialect, on shards. `lower` puts them in the op's place.
    """


def alike(dialect: str, names: Iterable[str], record: OpRecord) -> dict[str, OpRecord]:
    """The same record for the ops called `names` in a dialect."""
    return {f"{dialect}.{name}": record for name in names}
