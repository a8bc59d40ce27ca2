"""What keeps the readers of a value from being split as the value is."""

from __future__ import annotations

from collections.abc import Sequence

from shard_dialect.analysis.reasons.function_values import FunctionValues, at, dim_along, is_known
from shard_dialect.analysis.reasons.split_trace import SplitTrace
from shard_dialect.analysis.reasons.why import Reason
from shard_dialect.ir.numbered_function import Function, Op
from shard_dialect.model import Axes, Axis
from shard_dialect.passes.propagate.origins import Origin
from shard_dialect.propagation.graph import NO_TENSOR

_FARTHEST = 200
"""The ops that are visited in search of the annotation that keeps a dimension whole."""


class WholeReaders:
    """The readers of `source`, which a collective along `axes` of `grid` makes whole for them.

    `annotations` are those that do not split where the collective gathers or reduces.
    """

    def __init__(
        self,
        values: FunctionValues,
        source: int,
        readers: Sequence[Op],
        grid: str,
        axes: Axes,
        trace: SplitTrace,
    ) -> None:
        self.values = values
        self.source = source
        self.readers = readers
        self.grid = grid
        self.axes = axes
        self.trace = trace
        self.annotations: list[Origin] = []

    def steps(self) -> list[Reason]:
        """Why the first reader does not take the value as it is made."""
        if not self.readers:
            return []
        reader = self.readers[0]
        for axis in self.axes:
            other = self._other_use(reader, axis)
            if other is not None:
                return other
        if reader.name == "func.return" and self._returned(reader):
            return self._returned(reader)
        return self._unsplit_results(reader)

    def _other_use(self, reader: Op, axis: Axis) -> list[Reason] | None:
        """The reader splits another tensor or dimension along the axis."""
        for what, value in (
            *((f"result {n}", value) for n, value in enumerate(reader.results)),
            *((f"operand {n}", value) for n, value in enumerate(reader.operands)),
        ):
            sharding = self.values.sharding(value)
            dim = dim_along(sharding, axis)
            if sharding is None or dim is None:
                continue
            is_same = self.values.made_as(value) == self.source
            names = self.values.axes_text((axis,), sharding)
            verb = "takes" if is_same else "has"
            text = f"'{reader.name}' op {verb} {what} split in dimension {dim} along {names}"
            number = self.values.graph_value(self.source if is_same else value)
            if is_known(sharding, self.values.known(number), axis, dim):
                return [at(text, reader), *self.trace.chain(number, dim)]
            return [at(f"{text}: no annotation asks for it, it moves fewer bytes", reader)]
        return None

    def _returned(self, reader: Op) -> list[Reason]:
        origins = self.values.origins
        index = next(
            (
                n
                for n, each in enumerate(reader.operands)
                if self.values.made_as(each) == self.source
            ),
            None,
        )
        original = self.values.original(reader)
        if origins is None or original is None or index is None:
            return []
        number = origins.graph.exits.get((original[0], index), NO_TENSOR)
        known = self.values.known(number)
        self.annotations.append(origins.origin_of_result(original[0], index, 0))
        if known is None:
            return [at(f"result {index} is returned replicated: nothing splits it", reader)]
        return [at(f"result {index} is returned as {self.values.text(known)}", reader)]

    def _unsplit_results(self, reader: Op) -> list[Reason]:
        """The annotation after the reader that keeps what it makes whole, if there is one."""
        origins, original = self.values.origins, self.values.original(reader)
        if origins is None or original is None or not self.grid:
            return []
        index, op = original
        function = origins.graph.functions[index]
        annotated, made = _next_annotation(function, op)
        names = self.values.shardings.grid(self.grid).axes_text(self.axes)
        if annotated is None:
            return [at(f"nothing splits the result of '{reader.name}' op along {names}", reader)]
        text = f"the result of '{reader.name}' op is not split along {names}: "
        if annotated.name == "func.return":
            self.annotations += [
                origins.origin_of_result(index, number, 0)
                for number, value in enumerate(annotated.operands)
                if value in made
            ]
            return [Reason(f"{text}it is returned so", origins.place_of(index, annotated))]
        self.annotations.append(origins.origin_of_op(index, annotated, 0))
        return [Reason(f"{text}annotated so", origins.place_of(index, annotated))]


def _next_annotation(function: Function, op: Op) -> tuple[Op | None, set[int]]:
    """The first annotation or return that reads what comes of `op`; and the values between."""
    readers: dict[int, list[Op]] = {}
    for each in function.ops:
        for value in each.read:
            readers.setdefault(value, []).append(each)
    waiting, seen, made = [op], {id(op)}, set(op.results)
    while waiting and len(seen) < _FARTHEST:
        for value in waiting.pop(0).results:
            made.add(value)
            for reader in readers.get(value, ()):
                if reader.name in ("mesh.annotate", "func.return"):
                    return reader, made
                if id(reader) not in seen:
                    seen.add(id(reader))
                    waiting.append(reader)
    return None, made
