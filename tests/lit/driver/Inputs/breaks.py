"""A plugin with a pass that leaves a function whose type is not that of its body."""

from dataclasses import dataclass

from shard_dialect.ir.bindings import ir
from shard_dialect.passes.framework.base import Pass
from shard_dialect.passes.framework.pass_table import register_pass


@register_pass
@dataclass(frozen=True)
class BreakIt(Pass):
    """Make every function's result an i64."""

    name = "break-it"

    def rewrite(self, module: ir.Operation) -> None:
        for each in module.regions[0].blocks[0]:
            each.operation.attributes["function_type"] = ir.TypeAttr.parse("(i32) -> i64")
