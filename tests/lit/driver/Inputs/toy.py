"""A plugin: a dialect, a rule for its op, and a pass over functions."""

from dataclasses import dataclass
from typing import ClassVar, Literal

from shard_dialect.ir.bindings import ir
from shard_dialect.ir.context import register_dialect
from shard_dialect.ir.diagnostics import note_at, remark
from shard_dialect.model import ShardingRule
from shard_dialect.ops import Query, sharding_rule
from shard_dialect.passes.framework.base import Pass
from shard_dialect.passes.framework.pass_table import register_pass

register_dialect(
    "toy",
    """
    irdl.dialect @toy {
      irdl.operation @twice {
        %0 = irdl.any
        %1 = irdl.any
        irdl.operands(x: %0)
        irdl.results(y: %1)
      }
    }
    """,
)


def add_to_itself(op: ir.Operation) -> list[ir.Value]:
    x = op.operands[0]
    return list(ir.Operation.create("arith.addf", [x.type], [x, x]).results)


@sharding_rule("toy.twice", lowering=add_to_itself)
def twice(query: Query) -> ShardingRule:
    return ShardingRule.einsum("ij->ij", query.operands, query.results)


@register_pass
@dataclass(frozen=True)
class ToyCount(Pass):
    """Say how many ops a function has."""

    name = "toy-count"
    anchor: ClassVar[str] = "func.func"

    least: int = 0
    """Functions with fewer ops are not mentioned."""
    order: Literal["first", "last"] = "first"
    """Which op a note points at."""

    def rewrite(self, module: ir.Operation) -> None:
        ops = [each.operation for each in module.regions[0].blocks[0]]
        if len(ops) >= self.least:
            pointed = ops[0 if self.order == "first" else -1]
            name = ir.StringAttr(module.attributes["sym_name"]).value
            note = note_at(pointed.location, f"the {self.order} op")
            remark(f"function @{name} has {len(ops)} ops", module.location, note)
