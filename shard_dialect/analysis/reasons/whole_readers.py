"""The reasons why the readers of a value are not split as the value is.

Also why the passes split tensors that no annotation splits:

    reduce_scatter 1x           half the bytes of an all_reduce, whose result is twice as large
    reduce_scatter, all_gather  the bytes of an all_reduce, but the ops between compute on shards
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from shard_dialect.analysis.reasons.function_values import FunctionValues, at, dim_along, is_known
from shard_dialect.analysis.reasons.split_trace import SplitTrace
from shard_dialect.analysis.reasons.why import Reason
from shard_dialect.collectives import AllGather, ReduceScatter
from shard_dialect.ir.mesh.attributes import STAGES
from shard_dialect.ir.mesh.mesh_collectives import read_collective
from shard_dialect.ir.mesh.mesh_dialect import COLLECTIVES
from shard_dialect.ir.numbered_function import Function, Op
from shard_dialect.model import Axes, Axis, Sharding
from shard_dialect.model.grid import overlap
from shard_dialect.passes.propagate.origins import Origin
from shard_dialect.propagation.graph import NO_TENSOR

CHEAPEST = "it is the cheapest way to compute the op: by bytes, then by work"
_FARTHEST_ORIGIN = 200
"""The ops that are visited in search of the gather."""


class Unannotated:
    """A split along `axes` of `grid` of what reads `source`."""

    def __init__(self, values: FunctionValues, source: int, grid: str, axes: Axes) -> None:
        self.values = values
        self.source = source
        self.grid = grid
        self.axes = axes

    def why(self, reader: Op) -> str:
        """The reason, for the op that reads the source, as the end of a sentence."""
        sharding = self.values.sharding(self.source)
        if sharding is None or not any(
            overlap(axis, each) for axis in self.axes for each in sharding.partial
        ):
            return CHEAPEST
        gather = self._gathered(reader)
        if gather is None and not self._is_scattered():
            return CHEAPEST
        if gather is None:
            return "it moves half the bytes that an all_reduce would"
        return (
            f"with the gather that '{gather.name}' op needs it moves as many bytes as an "
            "all_reduce, and what is between computes on shards"
        )

    def _gathered(self, reader: Op) -> Op | None:
        """The reader of a later gather along the axes, on a way on which all stays split."""
        waiting, seen = [reader], {id(reader)}
        while waiting and len(seen) < _FARTHEST_ORIGIN:
            for value in waiting.pop(0).results:
                for op in self.values.readers.get(value, ()):
                    if id(op) in seen:
                        continue
                    seen.add(id(op))
                    if op.name in COLLECTIVES and self._gathers(op):
                        return next(self.values.read_by(op.results[0]), op)
                    waiting.append(op)
        return None

    def _is_scattered(self) -> bool:
        return any(
            isinstance(step, ReduceScatter)
            for op in self.values.readers.get(self.source, ())
            if op.name in COLLECTIVES and STAGES not in op.handle.attributes
            for step in read_collective(op.handle).steps
        )

    def _gathers(self, op: Op) -> bool:
        if STAGES in op.handle.attributes:  # what it moves follows from its stages
            return False
        return any(
            isinstance(step, AllGather) and any(axis in step.axes for axis in self.axes)
            for step in read_collective(op.handle).steps
        )


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
        if self.values.origins is None:
            return self._by_types(reader)
        uses = list(self._other_uses(reader))
        if any(steps[-1].annotation for steps in uses):
            return [step for steps in uses for step in steps]
        if uses:
            return [step for steps in (*uses, *self._met_by(reader)) for step in steps]
        if reader.name == "func.return" and self._returned(reader):
            return self._returned(reader)
        return self._unsplit_results(reader)

    def _by_types(self, reader: Op) -> list[Reason]:
        """Where nothing was propagated: what the types of the reader's tensors say."""
        if reader.name == "func.return":
            return self._returned_by_type(reader)
        for axis in self.axes:
            for what, value in (
                *((f"operand {n}", value) for n, value in enumerate(reader.operands)),
                *((f"result {n}", value) for n, value in enumerate(reader.results)),
            ):
                sharding = self.values.sharding(value)
                dim = dim_along(sharding, axis)
                if sharding is None or dim is None or self.values.made_as(value) == self.source:
                    continue
                names = self.values.axes_text((axis,), sharding)
                text = f"'{reader.name}' op has {what} split in dimension {dim} along {names}"
                return [at(text, reader), *self.trace.steps(value, (axis,))]
        return []

    def _returned_by_type(self, reader: Op) -> list[Reason]:
        found = (
            self.values.returned(number)
            for number, value in enumerate(reader.operands)
            if self.values.made_as(value) == self.source
        )
        return [each for each in found if each is not None]

    def _other_uses(self, reader: Op) -> Iterator[list[Reason]]:
        """The other tensors or dimensions that the reader splits along the axes."""
        left = list(self.axes)
        while left:
            found = self._other_use(reader, left)
            if found is not None:
                yield found[0]
            used = found[1] if found is not None else left[:1]
            left = [axis for axis in left if axis not in used]

    def _other_use(self, reader: Op, axes: Sequence[Axis]) -> tuple[list[Reason], Axes] | None:
        """The first that it splits along the first axis; and the axes that do so."""
        axis = axes[0]
        for what, value in (
            *((f"result {n}", value) for n, value in enumerate(reader.results)),
            *((f"operand {n}", value) for n, value in enumerate(reader.operands)),
        ):
            sharding = self.values.sharding(value)
            dim = dim_along(sharding, axis)
            if sharding is None or dim is None:
                continue
            is_same = self.values.made_as(value) == self.source
            along = tuple(each for each in axes if dim_along(sharding, each) == dim)
            names = self.values.axes_text(along, sharding)
            verb = "takes" if is_same else "has"
            text = f"'{reader.name}' op {verb} {what} split in dimension {dim} along {names}"
            number = self.values.graph_value(self.source if is_same else value)
            known = self.values.known(number)
            if is_known(sharding, known, axis, dim):
                same = self.values.same_axis(sharding, known, axis)
                return [at(text, reader), *self.trace.chain(number, dim, same)], along
            why = Unannotated(self.values, self.source, self.grid, self.axes).why(reader)
            return [at(f"{text}: no annotation asks for it; {why}", reader)], along
        return None

    def _met_by(self, reader: Op) -> Iterator[list[Reason]]:
        """The other operands of the reader that come split along an axis of the collective."""
        for number, value in enumerate(reader.operands):
            made = self.values.made_as(value)
            sharding, known = self.values.sharding(made), self._known(made)
            for axis in self.axes if made != self.source and sharding else ():
                dim = dim_along(sharding, axis)
                taken = dim_along(self.values.sharding(value), axis)
                if sharding is None or dim is None or taken != dim:
                    continue
                if is_known(sharding, known, axis, dim):
                    text = f"'{reader.name}' op has operand {number}, which comes as "
                    along = self.values.same_axis(sharding, known, axis)
                    chain = self.trace.chain(self.values.graph_value(made), dim, along)
                    yield [at(text + self.values.text(sharding), reader), *chain]

    def _known(self, value: int) -> Sharding | None:
        return self.values.known(self.values.graph_value(value))

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
            place = origins.place_of(index, annotated)
            return [Reason(f"{text}it is returned so", place, annotation=True)]
        self.annotations.append(origins.origin_of_op(index, annotated, 0))
        return [Reason(f"{text}annotated so", origins.place_of(index, annotated), annotation=True)]


def _next_annotation(function: Function, op: Op) -> tuple[Op | None, set[int]]:
    """The first annotation or return that reads what comes of `op`; and the values between."""
    waiting, seen, made = [op], {id(op)}, set(op.results)
    while waiting and len(seen) < _FARTHEST:
        for value in waiting.pop(0).results:
            made.add(value)
            for reader in function.readers.get(value, ()):
                if reader.name in ("mesh.annotate", "func.return"):
                    return reader, made
                if id(reader) not in seen:
                    seen.add(id(reader))
                    waiting.append(reader)
    return None, made
