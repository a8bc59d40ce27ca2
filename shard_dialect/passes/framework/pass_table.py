"""The table of all passes by name; users register theirs in it."""

from __future__ import annotations

import re
from importlib import import_module
from typing import TypeVar

from shard_dialect.errors import ShardError, did_you_mean
from shard_dialect.ir.context import expect_code_of_users
from shard_dialect.passes.framework.base import Pass, pass_of_function
from shard_dialect.passes.framework.options import options_of
from shard_dialect.passes.pipelines import PIPELINES

PASSES = {
    "fold-grid-sizes": "specialize.fold_grid_queries:fold_grid_sizes",
    "fold-collective-operands": "specialize.fold_grid_queries:fold_collective_operands",
    "import": "vocabularies.import_:Import",
    "annotations-to-shard": "vocabularies.export_shard:AnnotationsToShard",
    "refuse-beyond-mesh": "vocabularies.export_shard:RefuseBeyondMesh",
    "annotations-to-sdy": "vocabularies.export_sdy:AnnotationsToSdy",
    "set-sizes": "specialize.set_sizes:SetSizes",
    "propagate-shapes": "specialize.propagate_shapes:PropagateShapes",
    "divide-into-stages": "pipelining.divide_into_stages:DivideIntoStages",
    "sink-reshapes": "propagate.take_merges_apart:SinkReshapes",
    "expand-random-bits": "propagate.expand_random_bits:ExpandRandomBits",
    "expand-top-k": "propagate.expand_top_k:ExpandTopK",
    "batch-gathers": "propagate.known_indices:BatchGathers",
    "compose-slices": "propagate.compose_slices:ComposeSlices",
    "sum-in-place": "propagate.sum_in_place:SumInPlace",
    "sum-apart": "propagate.sum_apart:SumApart",
    "rematerialize": "rematerialize:Rematerialize",
    "settle-grids": "stages.settle_grids:settle_grids",
    "stages-to-grid": "stages.stages_to_grid:stages_to_grid",
    "open-manual-computations": "manual.manual_bodies:open_manual_computations",
    "clone-per-call": "calls:clone_per_call",
    "inline-functions": "calls:inline_functions",
    "inline-for-one-device": "calls:inline_for_one_device",
    "inline-named-computations": "calls:inline_named_computations",
    "take-merges-apart": "propagate.take_merges_apart:TakeMergesApart",
    "propagate-shardings": "propagate.propagate_shardings:PropagateShardings",
    "merge-clones": "calls:merge_clones",
    "split-reductions": "materialize.split_reductions:SplitReductions",
    "shift-slices": "shifts.shift_slices:ShiftSlices",
    "complete-shardings": "propagate.propagate_shardings:complete_shardings",
    "insert-collectives": "materialize.insert_collectives:InsertCollectives",
    "share-collectives": "optimize.rewrite_collectives:ShareCollectives",
    "fold-collectives": "optimize.rewrite_collectives:FoldCollectives",
    "sink-reductions": "optimize.rewrite_collectives:SinkReductions",
    "sink-gathers": "optimize.rewrite_collectives:SinkGathers",
    "raise-gathers": "optimize.rewrite_collectives:RaiseGathers",
    "exchange-gathers": "optimize.rewrite_collectives:ExchangeGathers",
    "reduce-to-pieces": "optimize.rewrite_collectives:ReduceToPieces",
    "join-pieces": "optimize.rewrite_collectives:JoinPieces",
    "compute-halos": "optimize.compute_halos:ComputeHalos",
    "compute-on-slices": "optimize.rewrite_collectives:ComputeOnSlices",
    "rewrite-collectives": "optimize.rewrite_collectives:RewriteCollectives",
    "partition": "partition.partition:Partition",
    "blockwise-attention": "blockwise.blockwise_attention:BlockwiseAttention",
    "bundle-collectives": "bundle_collectives:BundleCollectives",
    "chunk-products": "overlap_collectives:ChunkProducts",
    "overlap-collectives": "overlap_collectives:OverlapCollectives",
    "pick-device": "partition.one_device:PickDevice",
    "refuse-sharded": "lower.boundary:refuse_sharded",
    "expand-rolls": "lower.expansions:expand_rolls",
    "mark-boundary": "lower.boundary:mark_boundary",
    "control-flow-to-scf": "lower.control_flow:control_flow_to_scf",
    "keep-collectives": "partition.one_device:keep_collectives",
    "fold-device-positions": "specialize.fold_grid_queries:fold_device_positions",
    "check-meetings": "lower.check_meetings:check_meetings",
    "check-members": "lower.computed_members:check_members",
    "collectives-on-tensors": "lower.lower_collectives:collectives_on_tensors",
    "pack-collectives": "lower.lower_collectives:pack_collectives",
    "branches-to-scf": "lower.conversions:branches_to_scf",
    "keep-endless-loops": "lower.control_flow:keep_endless_loops",
    "decompose-chlo": "decompose_chlo:decompose_chlo",
    "expand-ops": "lower.expansions:expand_ops",
    "refuse-custom-calls": "lower.conversions:refuse_custom_calls",
    "stablehlo-to-linalg": "lower.conversions:stablehlo_to_linalg",
    "switches-to-ifs": "lower.control_flow:switches_to_ifs",
    "decompose-linalg": "lower.conversions:decompose_linalg",
    "tosa-to-linalg": "lower.conversions:tosa_to_linalg",
    "elementwise-to-linalg": "lower.conversions:elementwise_to_linalg",
    "drop-signs": "lower.conversions:drop_signs",
    "accumulate-wide": "lower.wide_accumulation:accumulate_wide",
    "separate-buffers": "lower.buffers:separate_buffers",
    "copy-loop-carried": "lower.control_flow:copy_loop_carried",
    "expand-to-loops": "lower.expansions:expand_to_loops",
    "compute-elements": "lower.expansions.upstream_workarounds:compute_elements",
    "call-collectives": "lower.lower_collectives:call_collectives",
    "release-collectives": "partition.one_device:release_collectives",
    "bufferize": "lower.conversions:Bufferize",
    "copy-repeated-results": "lower.boundary:copy_repeated_results",
    "results-to-arguments": "lower.conversions:results_to_arguments",
    "free-buffers": "lower.buffers:free_buffers",
    "simplify-lowered": "lower.conversions:simplify_lowered",
    "end-lowering": "lower.boundary:end_lowering",
    "call-mpi": "lower.mpi.native_mpi:call_mpi",
    "expand-registered-ops": "lower.expansions:expand_registered_ops",
    "generalize-linalg": "lower.conversions:generalize_linalg",
    "lower-affine-ops": "lower.conversions:lower_affine_ops",
    "convert-to-stablehlo": "lower.to_stablehlo.to_stablehlo:ConvertToStablehlo",
    "erase-sharding": "erase_sharding:EraseSharding",
}
"""Our passes: `module:Class` or `module:function` in `shard_dialect.passes`, imported when the pass
is asked for. They stand in the order of the forms that they go through; the last goes back to the
start. `passes/pipelines.py` has the orders in which they run."""

_registered: dict[str, type[Pass]] = {}
_registered_functions: dict[str, type[Pass]] = {}
"""The classes of the passes that are functions, each made once."""

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
    if cls.anchor != "any" and not re.fullmatch(r"\w+(\.\w+)+", cls.anchor):
        hint = did_you_mean(cls.anchor, ("func.func", "builtin.module"), ", as in 'func.func'")
        raise ShardError(
            f"pass '{name}' of {cls.__name__} would never run: its anchor '{cls.anchor}' is not "
            f"the name of an op{hint}"
        )
    if cls.__abstractmethods__:
        raise ShardError(
            f"pass '{name}': {cls.__name__} has no method "
            f"'{min(cls.__abstractmethods__)}', which changes the op that the pass runs on"
        )
    expect_code_of_users()
    options_of(cls)  # raises here for a field that cannot be an option
    _registered[name] = cls
    return cls


def _origin(cls: type[Pass]) -> tuple[str, str]:
    return cls.__module__, cls.__qualname__


def pass_names() -> tuple[str, ...]:
    """The names of all passes in Python: ours, then those registered."""
    return (*PASSES, *_registered)


def is_registered(name: str) -> bool:
    """Whether the pass called `name` is a user's."""
    return name in _registered


def pass_class(name: str) -> type[Pass]:
    """The class of the pass called `name`."""
    if name not in _registered:
        module, _, member = PASSES[name].partition(":")
        found = getattr(import_module(f"shard_dialect.passes.{module}"), member)
        if isinstance(found, type):
            return found
        _registered_functions.setdefault(name, pass_of_function(name, found))
        return _registered_functions[name]
    return _registered[name]
