"""Partition a module, and keep for each collective of the local form why it is there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from shard_dialect.analysis.changes.annotations import Placed, annotations_in, mark_annotations
from shard_dialect.analysis.drawing.named_shardings import NamedSharding, named_shardings
from shard_dialect.analysis.drawing.typed_shardings import typed_shardings
from shard_dialect.analysis.layers.layered_program import LayeredProgram, read_layers
from shard_dialect.analysis.reasons.borrowed_locations import borrow_locations
from shard_dialect.analysis.reasons.explanation import Reasons
from shard_dialect.analysis.reasons.inferred_shardings import forget_inferred
from shard_dialect.analysis.reasons.marks import mark, mark_collective
from shard_dialect.analysis.reasons.result_places import result_places
from shard_dialect.analysis.reasons.why import Why
from shard_dialect.ir.bindings import ir
from shard_dialect.ir.diagnostics import location_text
from shard_dialect.ir.function import functions_of, name_of
from shard_dialect.ir.walk import walk
from shard_dialect.passes.framework.pass_table import PIPELINES
from shard_dialect.passes.framework.pipeline import make_pass, run_pipeline
from shard_dialect.passes.propagate.module_graph import ModuleGraph
from shard_dialect.passes.propagate.origins import Origins
from shard_dialect.passes.propagate.propagate import Propagate
from shard_dialect.propagation.engine import Engine


@dataclass(frozen=True)
class Explained:
    """What is known of a module that has been partitioned."""

    reasons: Mapping[int, Why]
    """By the number of the collective's mark."""
    origins: Origins | None
    """`None` if nothing was propagated."""
    tensors: tuple[NamedSharding, ...]
    """Those of the entry after propagation; none if the module was partitioned already."""
    arguments: Mapping[int, Placed]
    """The entry's arguments by number, with their places in the file."""
    layers: LayeredProgram
    """The ops of the program as it was before `partition`."""
    places: Mapping[str, str]
    """The places of the entry's values, by their names in a module that came in a later form."""


def imported(text: str) -> ir.Module:
    """The module in a text, in the current context, with its annotations imported."""
    module = ir.Module.parse(text)
    run_pipeline(module, "import")
    return module


def partition_explained(module: ir.Module, entry: str, text: str | None = None) -> Explained:
    """Bring a module in any form to the local form, in place, with its collectives marked.

    `text` is that of the user's file, in which the arguments of the function `entry` have names.
    Raises a located `ShardError` for what cannot be partitioned.
    """
    places = _places(module.operation, entry)
    run_pipeline(module, "import")
    forget_inferred(module)
    borrow_locations(module.operation)
    mark_annotations(module.operation)
    arguments = {
        each.site.number: each
        for each in annotations_in(module.operation)
        if (each.site.kind, each.site.function) == ("argument", entry)
    }
    recording = _Recording()
    reasons: dict[int, Why] = {}
    tensors: tuple[NamedSharding, ...] = ()
    layers = LayeredProgram(())
    for name in PIPELINES["spmd"]:
        if name == "propagate":
            recording.run(module)
            if recording.origins is not None:
                _place_results(recording.origins, text)
                tensors = tuple(named_shardings(module.operation, entry, text, recording.origins))
        elif name == "partition":
            reasons = _mark_collectives(module, recording.origins)
            layers = read_layers(module.operation, entry)
            run_pipeline(module, f"{name},canonicalize,cse")  # nobody runs what nobody uses
        else:
            make_pass(name).run(module)
        if name == "propagate" and recording.origins is None:
            tensors = tuple(typed_shardings(module.operation, entry, text))
    given = places if recording.origins is None else {}
    return Explained(reasons, recording.origins, tensors, arguments, layers, given)


def _places(module: ir.Operation, entry: str) -> dict[str, str]:
    state = ir.AsmState(module)
    function = next(op for op in functions_of(module) if name_of(op) == entry)
    return {
        result.get_name(state).partition("#")[0]: place
        for op in walk(function)
        if (place := location_text(op.location)) is not None
        for result in op.results
    }


def _place_results(origins: Origins, text: str | None) -> None:
    for index in range(len(origins.graph.functions) if text else 0):
        assert text is not None, "there is one"
        for number, each in enumerate(result_places(text, origins.place_of_function(index))):
            origins.result_places[index, number] = each


def _mark_collectives(module: ir.Module, origins: Origins | None) -> dict[int, Why]:
    reasons = {}
    found = list(Reasons(module.operation, origins).of_collectives())
    for number, (handle, why) in enumerate(found):
        mark_collective(handle, number)
        reasons[number] = why
    return reasons


class _Recording(Propagate):
    """Propagation that keeps where shardings come from, and marks the ops."""

    def __init__(self) -> None:
        super().__init__()
        object.__setattr__(self, "origins", None)

    origins: Origins | None

    def observe(self, graph: ModuleGraph, engine: Engine) -> None:
        object.__setattr__(self, "origins", Origins(graph, engine))
        for number, function in enumerate(graph.functions):
            for index, op in enumerate(function.ops):
                mark(op.handle, number, index)
