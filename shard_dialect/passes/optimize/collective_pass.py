"""The base class of the passes on collectives: try a rewrite at each reshard until none helps."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass

from shard_dialect.ir.bindings import ir
from shard_dialect.ir.function import form_of, functions_of
from shard_dialect.ir.mesh.sharding_attributes import Shardings
from shard_dialect.model import Sharding
from shard_dialect.passes.framework.base import Pass
from shard_dialect.passes.materialize.type_consistency import read_distributed
from shard_dialect.passes.optimize.graph.function_graph import FunctionGraph
from shard_dialect.passes.optimize.graph.graph_elements import GraphOp
from shard_dialect.passes.optimize.graph.write_graph import write_graph
from shard_dialect.planner import BYTES, Prices


@dataclass(frozen=True)
class CollectivePass(Pass):
    """A rewrite of the distributed form, tried at each reshard until none helps."""

    def rewrite(self, module: ir.Operation) -> None:
        """Apply the rewrite to each function in the distributed form."""
        for graph in read_graphs(module):
            self.improve(graph)
            write_graph(graph)

    def improve(self, graph: FunctionGraph) -> bool:
        """Rewrite `graph` while that helps; return whether anything changed."""
        ever, again = False, True
        while again:
            again = False
            for op in graph.ops():
                again |= op.is_reshard and bool(op.results[0].uses) and self._try(op, graph)
            graph.drop_unused()
            ever |= again
        return ever

    def _try(self, reshard: GraphOp, graph: FunctionGraph) -> bool:
        """Try the rewrite, unless nothing has changed since it was last tried in vain."""
        since, looked_at = graph.failed.get((self, reshard), (0, ()))
        if since and all(value.changed_at < since for value in looked_at):
            return False
        graph.looked_at = {reshard.results[0], *filter(None, reshard.operands)}
        now = graph.now()
        if self.improve_at(reshard, graph):
            return True
        graph.failed[self, reshard] = now, tuple(graph.looked_at)
        return False

    @abstractmethod
    def improve_at(self, reshard: GraphOp, graph: FunctionGraph) -> bool:
        """Try the rewrite at one reshard of `graph`; return whether it was applied.

        The replaced ops stay, without uses.
        """


def read_graphs(module: ir.Operation, prices: Prices = BYTES) -> Iterator[FunctionGraph]:
    """The functions of the module in the distributed form, checked, one after the other."""
    shardings = Shardings.of(module)
    for handle in functions_of(module):
        if form_of(handle) == "distributed":
            yield FunctionGraph(read_distributed(handle, shardings), shardings, prices)


def sources(reshard: GraphOp, graph: FunctionGraph) -> tuple[Sharding, Sharding]:
    """The source and the target sharding of a reshard."""
    collective = graph.collective_of(reshard)
    return collective.source, collective.target
