"""A torch module as a module in the annotated form."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from shard_dialect.ir.bindings import ir
from shard_dialect.ir.building.build import annotate, replace_op
from shard_dialect.ir.context import make_context
from shard_dialect.ir.function import boundary, functions_of, name_of, returns_of, set_boundary
from shard_dialect.ir.grids import write_grid
from shard_dialect.ir.mesh.attributes import DONATED, SHARDING
from shard_dialect.ir.mesh.sharding_attributes import Shardings
from shard_dialect.ir.reading.source import Source
from shard_dialect.ir.walk import body
from shard_dialect.model import Grid, Sharding
from shard_dialect.search.auto import AutoOptions, auto
from shard_dialect.torch.ambient_state import traced_alone
from shard_dialect.torch.graph.decompositions import instead_of
from shard_dialect.torch.graph.flat_module import GRADIENT, LATER, FlatModule
from shard_dialect.torch.graph.forward_and_backward import COTANGENT, SAVED, Part, split
from shard_dialect.torch.graph.import_graph import RefusedOp, marks_of, stablehlo_text
from shard_dialect.torch.graph.random_draws import Rng
from shard_dialect.torch.graph.split_merged_dims import split_merged_dims
from shard_dialect.torch.graph.tensor_trees import Tensor, arguments_of
from shard_dialect.torch.graph.trace_graph import (
    hooked,
    merge_marks,
    trace,
    without_autocast,
    without_hooks,
)
from shard_dialect.torch.module_code import spaces_of
from shard_dialect.torch.plans.placed_names import Mark, Marker, PlacedModule
from shard_dialect.torch.plans.placement_lists import ByAxis, Placement, grid_of
from shard_dialect.torch.plans.plan_rules import Plan, rules_of

ENTRY = "main"


@dataclass(frozen=True)
class Backward:
    """The program of the gradients, before it is known how what it is called with is placed."""

    part: Part
    text: str
    placed: PlacedModule
    marks: Sequence[Mark]

    def lowered(
        self, placements: Mapping[str, Sequence[Placement]], saved: Mapping[str, Sharding]
    ) -> LoweredModule:
        """The module, with `placements` of what the forward program takes and returns.

        Those are what propagation starts from. What the forward program has `saved` in another
        sharding comes in that one, from which propagation would split more than anybody asked for:
        each product of a part of the batch makes the gradients of weights partial sums.
        """
        tensors = {name: dict(enumerate(each)) for name, each in placements.items()}
        results = list(self.placed.flat.result.tensors)
        tensors |= {
            name: tensors[results[int(name.removeprefix(COTANGENT))]]
            for name in self.part.names
            if name.startswith(COTANGENT)
        }
        placed = replace(self.placed, tensors=tensors, given={})
        found = _named(self.text, placed, self.part)
        with found.context, ir.Location.unknown():
            _annotate(found.operation, placed, self.part, self.marks)
            function = entry_of(found.operation)
            entries = boundary(function, "arg_attrs")
            for name, entry in zip(self.part.names, entries, strict=True):
                if name.startswith(SAVED):
                    entry[DONATED] = ir.UnitAttr.get()
            set_boundary(function, "arg_attrs", entries)
        return LoweredModule(found, placed, self.part, saved=saved)


@dataclass(frozen=True)
class LoweredModule:
    """A torch module for arguments of certain shapes, as the function `main` of a module."""

    module: ir.Module
    placed: PlacedModule
    part: Part
    backward: Backward | None = None
    """Of a module that derives."""
    saved: Mapping[str, Sharding] = field(default_factory=dict)
    """By name, how arguments come that propagation takes to be sharded otherwise."""

    @property
    def flat(self) -> FlatModule:
        """The module as a function."""
        return self.placed.flat

    @property
    def grid(self) -> Grid:
        """The user's mesh."""
        return self.placed.grid

    @cached_property
    def digest(self) -> bytes:
        """Equal of modules that are compiled to the same programs, for arguments of one kind.

        It is of the text as it is when first asked for: before shardings are propagated in it.
        """
        text = self.module.operation.get_asm(enable_debug_info=True)
        names = (self.part.names, self.part.result_names, self.flat.trained)
        later = self.backward.text if self.backward else ""
        said = repr((text, later, self.part.path, *map(list, names)))
        return hashlib.sha256(said.encode()).digest()


def lower(
    module: Any,
    args: Sequence[Any],
    plan: Plan | AutoOptions,
    mesh: Any,
    *,
    kwargs: Mapping[str, Any] | None = None,
    loss: Callable[..., Tensor] | None = None,
    targets: Sequence[Any] = (),
    rng: Rng = "counter",
) -> ir.Module:
    """Return a `torch.nn.Module` in the annotated form, for arguments of these shapes.

    The arguments of `main` are parameters, buffers and then `args` and `kwargs`, and their
    locations are their names. `plan` says how they are placed on `mesh`, a `DeviceMesh` or a grid
    (docs/torch.md); with `sd.AUTO`, or other `sd.AutoOptions`, a search finds that. With `loss`, a
    function of the module's result and of `targets`, the results are the loss and the gradients of
    the parameters. `rng` says where random numbers come from ("counter" or "torch"). Raises
    `ShardError` for what torch cannot trace or StableHLO cannot say, and for a plan that
    does not fit.
    """
    given = arguments_of(module, args, kwargs or {}, loss, targets)
    flat = FlatModule(module, spaces_of(module, {}), given, loss, rng)
    return lower_module(flat, plan, mesh).module


def lower_module(
    flat: FlatModule,
    plan: Plan | AutoOptions,
    mesh: Any,
    arguments: Mapping[str, ByAxis] | None = None,
    may_miss: bool = False,
) -> LoweredModule:
    """As `lower`, with the names of arguments and results, and with the gradients of what derives.

    `arguments` have these placements where the plan says nothing. With `may_miss`, names in the
    plan may match nothing.
    """
    grid = grid_of(mesh)
    rules = [] if isinstance(plan, AutoOptions) else rules_of(plan, grid)
    placed = PlacedModule.of(flat, rules, grid, may_miss, arguments)
    marker = Marker(placed)
    (part, text), *rest = traced_alone(
        flat.module, lambda: _stablehlo_texts(flat, marker), flat.end_trace
    )
    placed.check_results(flat.result_names)
    found = _named(text, placed, part)
    with found.context, ir.Location.unknown():
        if isinstance(plan, AutoOptions):
            found = auto(found, plan.without_pipelines(), ENTRY).module
        else:
            _annotate(found.operation, placed, part, marker.marks)
    backward = next((Backward(*each, placed, marker.marks) for each in rest), None)
    return LoweredModule(found, placed, part, backward)


def _stablehlo_texts(flat: FlatModule, marker: Marker) -> list[tuple[Part, str]]:
    """With the ops that the importer refuses said by others, where torch itself knows how.

    Of a module that derives, the forward part comes first, and then the backward part.
    """
    more: dict[Any, Any] = {}
    while True:
        with without_hooks(flat.module), hooked(list(marker.hooks())):
            graph = trace(flat, more)
        merge_marks(graph, marker.marks)
        part = flat.whole(graph)
        parts = split(part, GRADIENT, LATER) if flat.derives else (part, None)
        try:
            with without_autocast():
                return [
                    (replace(each, graph=None), stablehlo_text(each.graph, ENTRY))
                    for each in parts
                    if each is not None
                ]
        except RefusedOp as error:
            found = None if error.op in more else instead_of(error.op)
            if found is None:
                raise
            more[error.op] = found


def entry_of(module: ir.Operation) -> ir.Operation:
    """The function that is the torch module."""
    (function,) = (each for each in functions_of(module) if name_of(each) == ENTRY)
    return function


def _named(text: str, placed: PlacedModule, part: Part) -> ir.Module:
    """The module of a text, with the grid, and with the names of the entry's arguments."""
    with make_context():
        found = Source.of(text, placed.flat.name).parse()
    module = found.operation
    with found.context, ir.Location.unknown():
        split_merged_dims(module)
        with ir.InsertionPoint.at_block_begin(body(module)):
            write_grid(placed.grid)
        for name, argument in zip(part.names, body(entry_of(module)).arguments, strict=True):
            argument.set_location(ir.Location.name(name, argument.location))
    return found


def _annotate(
    module: ir.Operation, placed: PlacedModule, part: Part, marks: Sequence[Mark]
) -> None:
    grid, function = placed.grid, entry_of(module)
    shardings = Shardings({grid.name: grid})
    given: dict[int, dict[int, Any]] = {}
    for number, op in marks_of(module):
        mark = marks[number]
        value = op.operands[0]
        if isinstance(value.owner, ir.Block):
            given.setdefault(ir.BlockArgument(value).arg_number, {}).update(mark.given)
        with ir.InsertionPoint(op), op.location:
            new = annotate(value, shardings.write(mark.annotation), as_result=not mark.is_input)
        replace_op(op, new)

    def attributes(key: str, values: Sequence[ir.Value], annotation_of: Any) -> None:
        entries = boundary(function, key)
        for number, (entry, value) in enumerate(zip(entries, values, strict=True)):
            found = annotation_of(number, tuple(value.type.shape))
            if found is not None:
                entry[SHARDING] = shardings.write(found)
        set_boundary(function, key, entries)

    names, results = part.names, part.result_names
    arguments = list(body(function).arguments)
    attributes(
        "arg_attrs",
        arguments,
        lambda number, shape: placed.annotation(names[number], shape, given.get(number)),
    )
    (end,) = returns_of(function)
    attributes(
        "res_attrs",
        list(end.operands),
        lambda number, shape: placed.result_annotation(results[number], shape),
    )
