"""What propagation tells of itself: remarks on conflicts, and where a sharding came from."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import groupby

from shard_dialect.errors import Diagnostic, ShardError
from shard_dialect.ir.bindings import ir
from shard_dialect.ir.diagnostics import location_text, note_at, remark
from shard_dialect.ir.numbered import Function, Op
from shard_dialect.model.axis import axes_text
from shard_dialect.passes.propagate.module_graph import ModuleGraph
from shard_dialect.propagation.engine import Engine
from shard_dialect.propagation.graph import NOTHING, Node
from shard_dialect.propagation.history import Conflict, History, Link, Side


class Report:
    """On one run of an engine over a mirrored module."""

    def __init__(self, module: ir.Operation, mirrored: ModuleGraph, engine: Engine) -> None:
        self.mirrored = mirrored
        self.engine = engine
        self.history = History(engine)
        self._module = module
        self._first: dict[int, tuple[Function, int]] = {}
        for number, function in enumerate(mirrored.functions):
            for value in range(len(function.values)):
                self._first.setdefault(mirrored.number_of(number, value), (function, value))

    def remark_conflicts(self) -> None:
        """Tell of each conflict that is left: the op, both sides, and who had its way."""
        for conflict in self.history.conflicts():
            op = self.mirrored.ops[conflict.node.origin][1]
            how = (
                f"{_described(conflict.winner, op)} has its way: {conflict.reason}"
                if conflict.winner
                else conflict.reason
            )
            a, b = (_described(side, op) for side in conflict.sides)
            remark(
                f"'{op.name}' op has {a} and {b}: {how}",
                op.location,
                *self._where_from(conflict),
            )

    def _where_from(self, conflict: Conflict) -> list[Diagnostic]:
        """Where each side was said."""
        values = [(conflict.node.values[side.place], side.dim) for side in conflict.sides]
        return [self._said(self.history.chain(*each)[-1]) for each in values]

    def explain(self, what: str) -> None:
        """Tell where the shardings of a value came from, op by op.

        `what` is the value's name in the printed result, `%3` or `@f:%3`, or a line of the file,
        for what the ops there make. Raises `ShardError` if there is none.
        """
        found = self._at_line(int(what)) if what.isdecimal() else self._named(what)
        if not found:
            raise ShardError(
                f"there is no value {what} to explain: give its name as it is printed, as in %3, "
                "or @f:%3 in function @f, or the number of its line"
            )
        for function, value in found:
            self._explain(function, value)

    def _at_line(self, line: int) -> list[tuple[int, int]]:
        found = []
        for number, function in enumerate(self.mirrored.functions):
            for op in function.ops:
                place = location_text(op.location)
                if place is not None and place.split(":")[-2:-1] == [str(line)]:
                    found += [(number, value) for value in op.results]
        return found

    def _named(self, what: str) -> list[tuple[int, int]]:
        match = re.fullmatch(r"(?:@([\w.$-]+):)?(%[\w.$#-]+)", what)
        if match is None:
            return []
        state = ir.AsmState(self._module)
        return [
            (number, value)
            for number, function in enumerate(self.mirrored.functions)
            if match[1] in (None, function.name)
            for value in range(len(function.values))
            if function.values[value].handle.get_name(state) == match[2]
        ][:1]

    def _explain(self, function: int, value: int) -> None:
        number = self.mirrored.number_of(function, value)
        known = self.engine.known(number)
        handle = self.mirrored.functions[function].values[value].handle
        name = handle.get_name(ir.AsmState(self._module))
        place = _place_of(self.mirrored.functions[function], value)
        if number == NOTHING or known is None:
            remark(f"{name} is replicated: nothing has reached it", place)
            return
        notes: list[Diagnostic] = []
        for dim, axes in enumerate(known.sharding.split_axes):
            if axes:
                links = self.history.chain(number, dim)
                notes += [self._link(link) for link in links]
        distinct = [each for each, _ in groupby(notes)]
        remark(f"{name} lies as {known.sharding}", place, *distinct)

    def _link(self, link: Link) -> Diagnostic:
        if link.node is None or link.source is None:
            return self._said(link)
        op = self.mirrored.ops[link.node.origin][1]
        source = link.node.values.index(link.source) if link.source in link.node.values else None
        what = _tensor_of(self.engine, link.node, source)
        return note_at(
            op.location,
            f"dimension {link.dim} along {axes_text(link.axes)}: by '{op.name}' op, from {what}",
        )

    def _said(self, link: Link) -> Diagnostic:
        """Where the first sharding of a chain was said."""
        text = f"dimension {link.dim} along {axes_text(link.axes)}"
        if link.node is not None:
            op = self.mirrored.ops[link.node.origin][1]
            return note_at(op.location, f"{text}: as '{op.name}' op says itself")
        for place, number in self.mirrored.exits.items():
            if number == link.value:
                function = self.mirrored.functions[place[0]]
                return note_at(function.handle.location, f"{text}: said of result {place[1]}")
        if link.value not in self._first:
            return Diagnostic("note", f"{text}: said")
        function, value = self._first[link.value]
        return note_at(_said_at(function, value), f"{text}: annotated")


def _tensor_of(engine: Engine, node: Node, place: int | None) -> str:
    results = engine.graph.forms[node.form].results
    if place is None:
        return "a member of its group"
    return f"operand {place}" if place < results else f"result {place - results}"


def _described(side: Side, op: Op) -> str:
    place = side.place - len(op.operands)
    what = f"operand {side.place}" if place < 0 else f"result {place}"
    return f"dimension {side.dim} of {what} split along {axes_text(side.axes)}"


def _place_of(function: Function, value: int) -> ir.Location:
    owner = function.values[value].handle.owner
    return function.handle.location if isinstance(owner, ir.Block) else owner.location


def _said_at(function: Function, value: int) -> ir.Location:
    """The annotation of a value, if an op is one; else where the value is made."""
    annotations: Sequence[Op] = [
        op
        for op in function.ops
        if op.name == "mesh.annotate" and value in (*op.operands, *op.results)
    ]
    return annotations[0].location if annotations else _place_of(function, value)
