"""The table of all passes by name; users register theirs in it."""

from __future__ import annotations

from importlib import import_module
from typing import TypeVar

from shard_dialect.errors import ShardError
from shard_dialect.passes.framework.base import Pass
from shard_dialect.passes.framework.options import options_of

PASSES = {
    "import": "vocabularies.import_:Import",
    "export-shard": "vocabularies.export_shard:ExportShard",
    "export-mesh": "vocabularies.export_mesh:ExportMesh",
    "export-sdy": "vocabularies.export_sdy:ExportSdy",
    "specialize": "specialize.specialize:Specialize",
    "pipeline": "pipelining.pipeline_:Pipeline",
    "sink-reshapes": "propagate.sink_reshapes:SinkReshapes",
    "rematerialize": "rematerialize:Rematerialize",
    "propagate": "propagate.propagate:Propagate",
    "split-reductions": "materialize.split_reductions:SplitReductions",
    "shift-slices": "shifts.shift_slices:ShiftSlices",
    "materialize": "materialize.materialize:Materialize",
    "share-collectives": "optimize.share_collectives:ShareCollectives",
    "fold-collectives": "optimize.fold_collectives:FoldCollectives",
    "sink-reductions": "optimize.sink_reductions:SinkReductions",
    "sink-gathers": "optimize.sink_gathers:SinkGathers",
    "raise-gathers": "optimize.raise_gathers:RaiseGathers",
    "exchange-gathers": "optimize.exchange_gathers:ExchangeGathers",
    "reduce-to-pieces": "optimize.reduce_to_pieces:ReduceToPieces",
    "compute-halos": "optimize.compute_halos:ComputeHalos",
    "compute-on-slices": "optimize.compute_on_slices:ComputeOnSlices",
    "optimize-collectives": "optimize.optimize_collectives:OptimizeCollectives",
    "partition": "partition.partition:Partition",
    "bundle-collectives": "schedule.bundle_collectives:BundleCollectives",
    "chunk-products": "schedule.chunk_products:ChunkProducts",
    "overlap-collectives": "schedule.overlap_collectives:OverlapCollectives",
    "pick-device": "partition.pick_device:PickDevice",
    "lower": "lower.lower:Lower",
    "erase-sharding": "erase_sharding:EraseSharding",
}
"""Our passes: `module:Class` in `shard_dialect.passes`, imported when the pass is asked for. They
stand in the order of the forms that they go through; the last goes back to the start."""

PIPELINES = {
    "spmd": (
        "sink-reshapes",
        "propagate",
        "split-reductions",
        "shift-slices",
        "materialize",
        "optimize-collectives",
        "partition",
    )
}
"""Names for several passes in a row."""
PIPELINE_OPTIONS = {"spmd": ("objective", "device-model")}
"""The options of such a name, each of which is for all passes in it that have it."""

_registered: dict[str, type[Pass]] = {}

PassClass = TypeVar("PassClass", bound=type[Pass])


def register_pass(cls: PassClass) -> PassClass:
    """Make a pass known by its `name`, to pipelines and to `opt`; usable as a decorator.

    The same class may come again, as it does when its module is loaded anew.
    """
    name = getattr(cls, "name", None)
    if not isinstance(name, str):
        raise ShardError(f"pass {cls.__name__} has no name: give it one, as in name = 'my-pass'")
    known = _registered.get(name)
    is_same = known is not None and _origin(known) == _origin(cls)
    if name in PASSES or name in PIPELINES or (known is not None and not is_same):
        raise ShardError(f"there is a pass '{name}' already: {cls.__name__} needs another name")
    options_of(cls)  # raises here for a field that cannot be an option
    _registered[name] = cls
    return cls


def _origin(cls: type[Pass]) -> tuple[str, str]:
    return cls.__module__, cls.__qualname__


def pass_names() -> tuple[str, ...]:
    """The names of all passes in Python: ours, then those registered."""
    return (*PASSES, *_registered)


def pass_class(name: str) -> type[Pass]:
    """The class of the pass called `name`."""
    if name in _registered:
        return _registered[name]
    module, _, cls = PASSES[name].partition(":")
    cls_found: type[Pass] = getattr(import_module(f"shard_dialect.passes.{module}"), cls)
    return cls_found
