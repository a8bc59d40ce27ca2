"""Where shardings came from, as text with places: from a value back to the user's annotations.

    dimension 1 along "model": by 'linalg.matmul' op, from operand 1    at 18:8
    dimension 1 along "model": annotated                                at 12:10

All places are read when `Origins` is made, so that it can be asked after passes have rewritten the
module.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Literal

from shard_dialect.errors import Diagnostic
from shard_dialect.ir.bindings import ir
from shard_dialect.ir.diagnostics import location_text, name_in
from shard_dialect.ir.function import form_of
from shard_dialect.ir.numbered_function import Function, Op
from shard_dialect.model import Axes, Axis
from shard_dialect.passes.propagate.module_graph import ModuleGraph
from shard_dialect.propagation.engine import Engine
from shard_dialect.propagation.graph import Node
from shard_dialect.propagation.history import Link
from shard_dialect.propagation.shortest_chains import ShortestChains


@dataclass(frozen=True)
class Origin:
    """The annotation of an argument, a result, or by an op, from which a split comes."""

    function: str
    kind: Literal["argument", "result", "op"]
    number: int
    """That of the argument or result; of an op, its place among those of the function."""
    dim: int
    location: ir.Location
    """Of the annotation."""


class Origins:
    """The origins of the shardings that an engine gave the values of a module's graph."""

    def __init__(self, graph: ModuleGraph, engine: Engine) -> None:
        self.graph = graph
        self.engine = engine
        self._chains = ShortestChains(engine)
        self.history = self._chains.history
        self._locations = {
            id(op): (number, op.location)
            for function in graph.functions
            for number, op in enumerate(function.ops)
        }
        self._places = {key: location_text(each) for key, (_, each) in self._locations.items()}
        self._function_locations = [each.handle.location for each in graph.functions]
        self._function_places = [location_text(each) for each in self._function_locations]
        self._argument_locations = [_argument_locations(each) for each in graph.functions]
        self._argument_places = [
            {number: location_text(each) for number, each in of_function.items()}
            for of_function in self._argument_locations
        ]
        self._was_propagated = [form_of(each.handle) == "propagated" for each in graph.functions]
        self._argument_names = [
            {number: name for number, each in of_function.items() if (name := name_in(each))}
            for of_function in self._argument_locations
        ]
        self.result_places: dict[tuple[int, int], str] = {}
        """The places of functions' results, for those who know the text that MLIR read."""
        self._definitions = [
            {
                value: op
                for op in function.ops
                for value in (*op.results, *(arg for block in op.blocks for arg in block.arguments))
            }
            for function in graph.functions
        ]
        self._first: dict[int, tuple[int, int]] = {}
        for number, function in enumerate(graph.functions):
            for value in range(len(function.values)):
                self._first.setdefault(graph.number_of(number, value), (number, value))

    def chain(self, value: int, dim: int, axis: Axis | None = None) -> list[Diagnostic]:
        """A note for each step from the split of a dimension back to the annotation, the last.

        With `axis` for the split along it, whatever else splits the dimension.
        """
        notes = [self._link(link) for link in self._chains.chain(value, dim, axis)]
        return [each for each, _ in groupby(notes)]

    def annotated(self, value: int, dim: int) -> Diagnostic:
        """A note at the annotation from which the split of a dimension comes."""
        return self._annotation(self.history.chain(value, dim)[-1])

    def origin(self, value: int, dim: int, axis: Axis | None = None) -> Origin | None:
        """Where the split of a dimension was annotated; `None` if it was not."""
        link = self.history.chain(value, dim, axis)[-1]
        if link.node is not None:
            function, op = self.graph.ops[link.node.origin]
            return self._origin_at(function, op, link.dim)
        for (index, result), number in self.graph.exits.items():
            if number == link.value:
                return self.origin_of_result(index, result, link.dim)
        if link.value not in self._first:
            return None
        function, number = self._first[link.value]
        annotation = self._annotation_op(function, number)
        if annotation is not None:
            return self._origin_at(function, annotation, link.dim)
        arguments = self.graph.functions[function].arguments
        if number in arguments:
            location = self._argument_locations[function][number]
            name = self.graph.functions[function].name
            return Origin(name, "argument", arguments.index(number), link.dim, location)
        definition = self._definitions[function].get(number)
        return self._origin_at(function, definition, link.dim) if definition else None

    def origin_of_result(self, function: int, number: int, dim: int) -> Origin:
        """The annotation of a function's result."""
        name, location = self.graph.functions[function].name, self._function_locations[function]
        return Origin(name, "result", number, dim, location)

    def origin_of_op(self, function: int, op: Op, dim: int) -> Origin:
        """The annotation that an op is."""
        return self._origin_at(function, op, dim)

    def _origin_at(self, function: int, op: Op, dim: int) -> Origin:
        number, location = self._locations[id(op)]
        return Origin(self.graph.functions[function].name, "op", number, dim, location)

    def place_of_function(self, function: int) -> str | None:
        """The place of the function with this index."""
        return self._function_places[function]

    def place_of_result(self, function: int, number: int) -> str | None:
        """The place of a function's result in its text, if it is known; else of the function."""
        return self.result_places.get((function, number), self._function_places[function])

    def place_of(self, function: int, op: Op) -> str | None:
        """The place of an op, for the function with the index `function`."""
        return self._places.get(id(op), self._function_places[function])

    def place_of_value(self, function: int, value: int) -> str | None:
        """The place of a value's definition: of the argument, or of the op."""
        if value in self._argument_places[function]:
            return self._argument_places[function][value] or self._function_places[function]
        op = self._definitions[function].get(value)
        return self.place_of(function, op) if op else self._function_places[function]

    def axes_text(self, axes: Axes, value: int) -> str:
        """Axes as text, by their names if the grid of the value has names."""
        known = self.engine.known(value)
        return self.engine.grids[known.sharding.grid].axes_text(axes) if known else str(list(axes))

    def _link(self, link: Link) -> Diagnostic:
        if link.node is None or link.source is None:
            return self._annotation(link)
        function, op = self.graph.ops[link.node.origin]
        source = link.node.values.index(link.source) if link.source in link.node.values else None
        what = self._tensor_of(link.node, source)
        text = f"{self._split(link)}: by '{op.name}' op, from {what}"
        return Diagnostic("note", text, self.place_of(function, op))

    def _annotation(self, link: Link) -> Diagnostic:
        """A note at the annotation where a chain of links begins."""
        text = self._split(link)
        if link.node is not None:
            function, op = self.graph.ops[link.node.origin]
            place = self.place_of(function, op)
            return Diagnostic("note", f"{text}: as '{op.name}' op is annotated", place)
        for (index, result), number in self.graph.exits.items():
            if number == link.value:
                what = f"result {result}{self._of(index)}"
                place = self.place_of_result(index, result)
                return Diagnostic("note", f"{text}: annotated on {what}", place)
        if link.value not in self._first:
            return Diagnostic("note", f"{text}: annotated")
        function, value = self._first[link.value]
        if self._is_inferred(function, value):
            return Diagnostic(
                "note",
                f"{text}: inferred by an earlier propagation, and annotated in this form",
                self.place_of_value(function, value),
            )
        what, place = "", self._annotation_place(function, value)
        if place is None and value in self._argument_places[function]:
            number = self.graph.functions[function].arguments.index(value)
            name = self._argument_names[function].get(value)
            what = f" on argument {number}{self._of(function)}" + (f", {name}" if name else "")
        return Diagnostic("note", f"{text}: annotated{what}", place)

    def _of(self, function: int) -> str:
        """Of which function, unless there is only one that is public."""
        name = self.graph.functions[function].name
        return "" if name == "main" or len(self.graph.functions) == 1 else f" of @{name}"

    def _is_inferred(self, function: int, value: int) -> bool:
        """Whether a value has its sharding from the propagated form, without an annotation op."""
        return (
            self._was_propagated[function]
            and value not in self._argument_places[function]
            and self._annotation_op(function, value) is None
        )

    def _split(self, link: Link) -> str:
        return f"dimension {link.dim} along {self.axes_text(link.axes, link.value)}"

    def _annotation_place(self, function: int, value: int) -> str | None:
        """The place of the value's annotation op, or else of the value's definition."""
        op = self._annotation_op(function, value)
        return self.place_of(function, op) if op else self.place_of_value(function, value)

    def _annotation_op(self, function: int, value: int) -> Op | None:
        for op in self.graph.functions[function].ops:
            if op.name == "mesh.annotate" and value in (*op.operands, *op.results):
                return op
        return None

    def _tensor_of(self, node: Node, number: int | None) -> str:
        results = self.engine.graph.rules[node.rule_number].results
        if number is None:
            return "a member of its group"
        return f"operand {number}" if number < results else f"result {number - results}"


def _argument_locations(function: Function) -> dict[int, ir.Location]:
    arguments: Sequence[ir.BlockArgument] = function.blocks[0].handle.arguments
    return {
        number: argument.location
        for number, argument in zip(function.arguments, arguments, strict=True)
    }
