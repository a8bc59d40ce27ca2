"""Explain shardings, as text with places: the way back from a value to the user's annotations.

    dimension 1 along "model": by 'linalg.matmul' op, from operand 1    at 18:8
    dimension 1 along "model": annotated                                at 12:10

All places are read when `Origins` is made, so that it can be asked after passes have rewritten the
module. `Report` emits the remarks of `--propagate`: the conflicts that are left, and the origin of
a sharding.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from typing import Literal

from shard_dialect.errors import Diagnostic, ShardError, as_symbol
from shard_dialect.ir.bindings import ir
from shard_dialect.ir.diagnostics import location_text, name_in, remark
from shard_dialect.ir.function import form_of
from shard_dialect.ir.numbered_function import Function, Op
from shard_dialect.ir.printed_names import PrintedAs, printed_names
from shard_dialect.model import Axes, Axis
from shard_dialect.passes.propagate.module_graph import ModuleGraph
from shard_dialect.propagation.engine import Engine
from shard_dialect.propagation.graph import NO_TENSOR, Node
from shard_dialect.propagation.history import Conflict, Link, ShortestChains, Side


@dataclass(frozen=True)
class Origin:
    """The annotation of an argument, a result, or by an op, from which a split comes."""

    function: str
    kind: Literal["argument", "result", "op"]
    number: int
    """The number of the argument or result; of an op, its index among those of the function."""
    dim: int
    location: ir.Location
    """The location of the annotation."""


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
        """The places of functions' results, filled in by a caller that has the module's text."""
        self._definitions = [
            {
                value: op
                for op in function.ops
                for value in (*op.results, *(arg for block in op.blocks for arg in block.arguments))
            }
            for function in graph.functions
        ]
        self._annotation_ops: dict[int, dict[int, Op]] = {}
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
        """The origin at an annotation op."""
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
        """The suffix " of @f" for a function; empty for `main` and for a single function."""
        name = self.graph.functions[function].name
        return "" if name == "main" or len(self.graph.functions) == 1 else f" of {as_symbol(name)}"

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
        """The first op that annotates the value."""
        if function not in self._annotation_ops:
            ops = [op for op in self.graph.functions[function].ops if op.name == "mesh.annotate"]
            self._annotation_ops[function] = {
                each: op for op in reversed(ops) for each in (*op.operands, *op.results)
            }
        return self._annotation_ops[function].get(value)

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


class Report:
    """Emits remarks on one run of the engine over the graph of a module."""

    def __init__(
        self,
        module: ir.Operation,
        graph: ModuleGraph,
        engine: Engine,
        printed_as: PrintedAs = "mesh",
    ) -> None:
        self.module_graph = graph
        self.engine = engine
        self.origins = Origins(graph, engine)
        self._module = module
        self._printed_as = printed_as

    def remark_conflicts(self) -> None:
        """Emit a remark for each remaining conflict: the op, both sides, and which one was kept."""
        for conflict in self.origins.history.conflicts():
            op = self.module_graph.ops[conflict.node.origin][1]
            how = (
                f"{self._described(conflict.winner, conflict, op)} wins: {conflict.reason}"
                if conflict.winner
                else conflict.reason
            )
            a, b = (self._described(side, conflict, op) for side in conflict.sides)
            remark(
                f"'{op.name}' op has {a} and {b}: {how}",
                op.location,
                *self._where_from(conflict),
            )

    def _described(self, side: Side, conflict: Conflict, op: Op) -> str:
        result = side.tensor - len(op.operands)
        what = f"operand {side.tensor}" if result < 0 else f"result {result}"
        axes = self.origins.axes_text(side.axes, conflict.node.values[side.tensor])
        return f"dimension {side.dim} of {what} split along {axes}"

    def _where_from(self, conflict: Conflict) -> list[Diagnostic]:
        """The annotation from which each side came."""
        return [
            self.origins.annotated(conflict.node.values[side.tensor], side.dim)
            for side in conflict.sides
        ]

    def explain(self, what: str) -> None:
        """Emit a remark on where the sharding of a value came from, with a note for each op.

        `what` is the value's name in the printed result, `%3` or `@f:%3`, or the number of a line,
        for the results of the ops there. Raises `ShardError` if there is no such value.
        """
        values = self._at_line(int(what)) if what.isdecimal() else self._named(what)
        if not values:
            raise ShardError(
                f"there is no value {what} to explain: give its name in the file, or as it is "
                "printed, as in %3, or @f:%3 in function @f, or the number of its line"
            )
        for function, value in values:
            self._explain(function, value)

    def _at_line(self, line: int) -> list[tuple[int, int]]:
        values = []
        for number, function in enumerate(self.module_graph.functions):
            for op in function.ops:
                location = location_text(op.location)
                if location is not None and location.split(":")[-2:-1] == [str(line)]:
                    values += [(number, value) for value in op.results]
        return values

    def _named(self, what: str) -> list[tuple[int, int]]:
        match = re.match(r"(?:@([\w.$-]+):)?%?", what)
        function_name, start = (match[1], match.end()) if match else (None, 0)
        asked, names = f"%{what[start:]}", self._names
        values = [
            (number, value)
            for number, function in enumerate(self.module_graph.functions)
            if function_name in (None, function.name)
            for value in range(len(function.values))
        ]
        handles = [self.module_graph.functions[each].values[value].handle for each, value in values]
        printed = [names.get(handle) for handle in handles]
        own = [f"%{_name_of_argument(handle)}" for handle in handles]
        found = printed if asked in printed else own
        return [each for each, name in zip(values, found, strict=True) if name == asked][:1]

    @cached_property
    def _names(self) -> dict[ir.Value, str]:
        """Each value's name as it is printed; in `shard`, annotations are not numbered."""
        return printed_names(self._module, self._printed_as)

    def _explain(self, function: int, value: int) -> None:
        number = self.module_graph.number_of(function, value)
        known = self.engine.known(number)
        handle = self.module_graph.functions[function].values[value].handle
        name = self._names.get(handle) or "an annotation"
        location = _location_of(self.module_graph.functions[function], value)
        if number == NO_TENSOR or known is None:
            remark(f"{name} is replicated: nothing has reached it", location)
            return
        notes = [
            note
            for dim, axes in enumerate(known.sharding.split_axes)
            if axes
            for note in self.origins.chain(number, dim)
        ]
        distinct = [each for each, _ in groupby(notes)]
        text = known.sharding.text(self.engine.grids[known.sharding.grid])
        remark(f"{name} is sharded as {text}", location, *distinct)


def _location_of(function: Function, value: int) -> ir.Location:
    owner = function.values[value].handle.owner
    return function.handle.location if isinstance(owner, ir.Block) else owner.location


def _name_of_argument(value: ir.Value) -> str | None:
    """The name that an argument has in the file; results of ops keep none."""
    return name_in(value.location) if isinstance(value.owner, ir.Block) else None
