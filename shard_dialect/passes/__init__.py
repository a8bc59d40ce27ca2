"""The passes, one a file, and the table of their names, which users may add theirs to.

Beside them stand what several share (`base` and `options`; `pipeline` with its `grammar` and
`instruments`) and parts of larger ones: `facts`, `hints`, `mirror`, `constants`, `split_constants`,
`calls`, `inline_named` and `report` of propagate; `wanted`, `choice` and `versions` of materialize;
`loops` of both; `consistency`, `pieces` and `whole_boundary` of partition; `control_flow`,
`aggregates`, `rows`, `elements` and `signless` of lower; `import_sdy`, `import_shard` and
`import_mesh` of import; `vocabulary` of the exports. In `collectives` are the rewrites that
`optimize_collectives` does together, and those of the local form.
"""

from __future__ import annotations

if __name__ != "shard_dialect.passes":
    raise ImportError("import this package as shard_dialect.passes, not through the link to it")

from importlib import import_module
from typing import TypeVar

from shard_dialect.errors import ShardError
from shard_dialect.passes.base import Pass
from shard_dialect.passes.options import options_of

PASSES = {
    "import": "import_:Import",
    "export-shard": "export_shard:ExportShard",
    "export-mesh": "export_mesh:ExportMesh",
    "export-sdy": "export_sdy:ExportSdy",
    "specialize": "specialize:Specialize",
    "sink-reshapes": "sink_reshapes:SinkReshapes",
    "propagate": "propagate:Propagate",
    "split-reductions": "split_reductions:SplitReductions",
    "materialize": "materialize:Materialize",
    "share-collectives": "collectives.share_collectives:ShareCollectives",
    "fold-collectives": "collectives.fold_collectives:FoldCollectives",
    "sink-reductions": "collectives.sink_reductions:SinkReductions",
    "sink-gathers": "collectives.sink_gathers:SinkGathers",
    "reduce-to-pieces": "collectives.reduce_to_pieces:ReduceToPieces",
    "compute-on-slices": "collectives.compute_on_slices:ComputeOnSlices",
    "optimize-collectives": "optimize_collectives:OptimizeCollectives",
    "partition": "partition:Partition",
    "bundle-collectives": "collectives.bundle_collectives:BundleCollectives",
    "chunk-products": "collectives.chunk_products:ChunkProducts",
    "overlap-collectives": "collectives.overlap_collectives:OverlapCollectives",
    "pick-device": "pick_device:PickDevice",
    "lower": "lower:Lower",
    "erase-sharding": "erase_sharding:EraseSharding",
}
"""Our passes: `module:Class` in this package, imported when the pass is asked for. They stand in
the order of the forms that they go through; the last goes back to the start."""

PIPELINES = {
    "spmd": (
        "sink-reshapes",
        "propagate",
        "split-reductions",
        "materialize",
        "optimize-collectives",
        "partition",
    )
}
"""Names for several passes in a row."""

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
    options_of(cls)  # so that what cannot be an option is said here
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
    found: type[Pass] = getattr(import_module(f"{__name__}.{module}"), cls)
    return found


__all__ = ["PASSES", "PIPELINES", "Pass", "pass_class", "pass_names", "register_pass"]
