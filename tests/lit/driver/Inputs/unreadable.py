"""A plugin with a pass that leaves what is refused when it is read."""

from dataclasses import dataclass

from shard_dialect.ir.bindings import ir
from shard_dialect.passes.framework.base import Pass
from shard_dialect.passes.framework.pass_table import register_pass


@register_pass
@dataclass(frozen=True)
class MakeUnreadable(Pass):
    """Give every function a grid that is none."""

    name = "make-unreadable"

    def rewrite(self, module: ir.Operation) -> None:
        for each in module.regions[0].blocks[0]:
            each.operation.attributes["mesh_cluster"] = ir.UnitAttr.get()
