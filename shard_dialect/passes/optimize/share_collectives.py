"""Replace equal reshards of one value by the first of them.

%1 = "mesh.all_gather"(%0)
%2 = "mesh.all_gather"(%0)      is %1
"""

from __future__ import annotations

from dataclasses import dataclass

from shard_dialect.passes.optimize.collective_pass import CollectivePass
from shard_dialect.passes.optimize.graph.function_graph import FunctionGraph
from shard_dialect.passes.optimize.graph.graph_elements import GraphOp


@dataclass(frozen=True)
class ShareCollectives(CollectivePass):
    """Replace equal reshards of one value by one."""

    name = "share-collectives"

    def improve_at(self, reshard: GraphOp, graph: FunctionGraph) -> bool:
        """Use the first equal reshard of the block instead of later ones."""
        source = reshard.operands[0]
        assert source is not None, "a reshard has one operand, a tensor"
        equal = [
            user
            for user in graph.users(source)
            if user.is_reshard and user.block is reshard.block and _does_the_same(user, reshard)
        ]
        if len(equal) < 2:
            return False
        first = min(equal, key=lambda op: op.position)
        for op in equal:
            if op is not first:
                graph.replace_all_uses(op.results[0], first.results[0])
        return True


def _does_the_same(a: GraphOp, b: GraphOp) -> bool:
    if a is b:
        return True
    is_alike = a.name == b.name and a.attributes == b.attributes
    return is_alike and a.results[0].sharding == b.results[0].sharding
