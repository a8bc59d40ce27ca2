"""Make communication cheaper: apply the passes on collectives until nothing changes.

In the distributed form these are `--fold-collectives`, `--share-collectives`, `--sink-reductions`,
`--sink-gathers`, `--raise-gathers`, `--exchange-gathers`, `--reduce-to-pieces`,
`--compute-on-slices` and `--compute-halos`, which are documented at their own flags. None makes a
program more expensive: each rewrite lowers the bytes moved, then the arithmetic of each device,
then the number of steps.

In the local form small all-reduces are bundled (`--bundle-collectives`). Two more passes on the
local form run only by their own flags: `--chunk-products` and `--overlap-collectives`.

Shardings are read from types only: no rewrite assumes a tensor to be replicated unless its type
states it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import cycle
from typing import Literal

from shard_dialect.ir.bindings import ir
from shard_dialect.passes.framework.base import Pass
from shard_dialect.passes.objective import prices_for
from shard_dialect.passes.optimize.collective_pass import CollectivePass, read_graphs
from shard_dialect.passes.optimize.compute_halos import ComputeHalos
from shard_dialect.passes.optimize.compute_on_slices import ComputeOnSlices
from shard_dialect.passes.optimize.exchange_gathers import ExchangeGathers
from shard_dialect.passes.optimize.fold_collectives import FoldCollectives
from shard_dialect.passes.optimize.graph.function_graph import FunctionGraph
from shard_dialect.passes.optimize.graph.write_graph import write_graph
from shard_dialect.passes.optimize.raise_gathers import RaiseGathers
from shard_dialect.passes.optimize.reduce_to_pieces import ReduceToPieces
from shard_dialect.passes.optimize.share_collectives import ShareCollectives
from shard_dialect.passes.optimize.sink_gathers import SinkGathers
from shard_dialect.passes.optimize.sink_reductions import SinkReductions
from shard_dialect.passes.schedule.bundle_collectives import BundleCollectives


@dataclass(frozen=True)
class OptimizeCollectives(Pass):
    """Replace collectives by cheaper ones, and compute on shards before gathering them."""

    name = "optimize-collectives"

    narrow: bool = False
    """Let a conversion to narrower floats round partial sums before they are reduced."""
    objective: Literal["bytes", "time"] = "bytes"
    """What to keep low: the bytes that a device sends, or the time on a device model."""
    device_model: str = "h100"
    """The device model for `objective=time`: its name, or a file that ends in .toml."""

    def rewrite(self, module: ir.Operation) -> None:
        """Apply all rewrites to each function until none changes anything."""
        rewrites = (
            ShareCollectives(),
            FoldCollectives(),
            SinkReductions(self.narrow),
            SinkGathers(),
            RaiseGathers(),
            ExchangeGathers(),
            ReduceToPieces(),
            ComputeOnSlices(),
            ComputeHalos(),
        )
        prices = prices_for(self.objective, self.device_model)
        BundleCollectives().rewrite(module)
        for graph in read_graphs(module, prices):
            _until_nothing_changes(rewrites, graph)
            write_graph(graph)


def _until_nothing_changes(rewrites: Sequence[CollectivePass], graph: FunctionGraph) -> None:
    """Apply the rewrites in turn, until each has seen the graph as it is and left it so.

    Ends, too, where the graph is as it was after an earlier turn: two rewrites that each take their
    own result for the better one would otherwise undo each other without end.
    """
    unchanged = 0
    states: dict[CollectivePass, set[int]] = {each: set() for each in rewrites}
    for each in cycle(rewrites):
        unchanged = 1 if each.improve(graph) else unchanged + 1
        if unchanged >= len(rewrites):
            return
        if unchanged == 1:
            state = graph.state()
            if state in states[each]:
                return
            states[each].add(state)
