"""Remarks about propagation: the conflicts that are left, and where a sharding came from."""

from __future__ import annotations

import re
from itertools import groupby

from shard_dialect.errors import Diagnostic, ShardError
from shard_dialect.ir.bindings import ir
from shard_dialect.ir.diagnostics import location_text, remark
from shard_dialect.ir.numbered_function import Function, Op
from shard_dialect.passes.propagate.module_graph import ModuleGraph
from shard_dialect.passes.propagate.origins import Origins
from shard_dialect.propagation.engine import Engine
from shard_dialect.propagation.graph import NO_TENSOR
from shard_dialect.propagation.history import Conflict, Side


class Report:
    """Emits remarks on one run of the engine over the graph of a module."""

    def __init__(self, module: ir.Operation, graph: ModuleGraph, engine: Engine) -> None:
        self.module_graph = graph
        self.engine = engine
        self.origins = Origins(graph, engine)
        self._module = module

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
                f"there is no value {what} to explain: give its name as it is printed, as in %3, "
                "or @f:%3 in function @f, or the number of its line"
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
        match = re.fullmatch(r"(?:@([\w.$-]+):)?(%[\w.$#-]+)", what)
        if match is None:
            return []
        state = ir.AsmState(self._module)
        return [
            (number, value)
            for number, function in enumerate(self.module_graph.functions)
            if match[1] in (None, function.name)
            for value in range(len(function.values))
            if function.values[value].handle.get_name(state) == match[2]
        ][:1]

    def _explain(self, function: int, value: int) -> None:
        number = self.module_graph.number_of(function, value)
        known = self.engine.known(number)
        handle = self.module_graph.functions[function].values[value].handle
        name = handle.get_name(ir.AsmState(self._module))
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
        remark(f"{name} is sharded as {known.sharding}", location, *distinct)


def _location_of(function: Function, value: int) -> ir.Location:
    owner = function.values[value].handle.owner
    return function.handle.location if isinstance(owner, ir.Block) else owner.location
