"""Cheaper communication: the passes of `collectives`, in the distributed form to a fixed point.

Each of them has its own flag and says what it does: `--fold-collectives`, `--share-collectives`,
`--sink-reductions`, `--sink-gathers`, `--reduce-to-pieces`, `--compute-on-slices`. None makes a
program dearer: bytes moved, then the arithmetic of each device, then the number of steps get less.

Of a function in the local form small all-reduces are bundled (`--bundle-collectives`). What makes
other work of it is asked for by name: `--chunk-products`, `--overlap-collectives`.

The types say what lies how, and each rewrite keeps to them: nothing is taken to be replicated
that its type does not state.
"""

from __future__ import annotations

from dataclasses import dataclass

from shard_dialect.ir.bindings import ir
from shard_dialect.ir.function import form_of, functions_of
from shard_dialect.ir.mesh.sharding_attributes import Shardings
from shard_dialect.passes.framework.base import Pass
from shard_dialect.passes.materialize.sharding_casts import take_casts_back
from shard_dialect.passes.materialize.type_consistency import check_can_be_cut
from shard_dialect.passes.optimize.compute_on_slices import ComputeOnSlices
from shard_dialect.passes.optimize.fold_collectives import FoldCollectives
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
    """Let a conversion to narrower floats round each part of a sum, before it is reduced."""

    def rewrite(self, module: ir.Operation) -> None:
        shardings = Shardings.of(module)
        rewrites = (
            ShareCollectives(),
            FoldCollectives(),
            SinkReductions(self.narrow),
            SinkGathers(),
            ReduceToPieces(),
            ComputeOnSlices(),
        )
        BundleCollectives().rewrite(module)
        for handle in functions_of(module):
            if form_of(handle) != "distributed":
                continue
            take_casts_back(handle)
            check_can_be_cut(handle, shardings)
            again = True
            while again:
                again = False
                for each in rewrites:
                    again |= each.improve(handle, shardings)
