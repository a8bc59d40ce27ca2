"""Replace equal reshards of one value by the first of them.

%1 = "mesh.all_gather"(%0)
%2 = "mesh.all_gather"(%0)      is %1
"""

from __future__ import annotations

from dataclasses import dataclass

from shard_dialect.ir.bindings import ir
from shard_dialect.ir.mesh.mesh_dialect import is_reshard
from shard_dialect.ir.mesh.sharding_attributes import Shardings
from shard_dialect.ir.walk import operations
from shard_dialect.passes.optimize.change_op_sharding import users
from shard_dialect.passes.optimize.collective_pass import CollectivePass


@dataclass(frozen=True)
class ShareCollectives(CollectivePass):
    """Replace equal reshards of one value by one."""

    name = "share-collectives"

    def improve_at(self, reshard: ir.Operation, shardings: Shardings) -> bool:
        """Use the first equal reshard of the block instead of later ones."""
        equal = [
            user
            for user in users(reshard.operands[0])
            if is_reshard(user) and user.block == reshard.block and _does_the_same(user, reshard)
        ]
        if len(equal) < 2:
            return False
        first = next(op for op in operations(reshard.block) if op in equal)
        for op in equal:
            if op != first:
                op.results[0].replace_all_uses_with(first.results[0])
        return True


def _does_the_same(a: ir.Operation, b: ir.Operation) -> bool:
    return _what(a) == _what(b)


def _what(op: ir.Operation) -> tuple[str, dict[str, ir.Attribute], ir.Type]:
    return op.name, {name: op.attributes[name] for name in op.attributes}, op.results[0].type
