"""Where the split of a value comes from: the steps back to the annotations of the program."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from shard_dialect.analysis.reasons.function_values import (
    FunctionValues,
    at,
    dim_along,
    is_known,
    reducing,
)
from shard_dialect.analysis.reasons.why import Reason
from shard_dialect.ir.numbered_function import LOOPS, Op
from shard_dialect.model import Axes, Axis, Sharding
from shard_dialect.model.grid import overlap
from shard_dialect.passes.propagate.origins import Origin


class SplitTrace:
    """Follows splits back through ops; `origins` are the annotations that it has come to.

    `others` are those of further operands that an op reduces: the annotation of the first operand
    has its steps, but without any of these the op would not make a partial result, either.
    """

    def __init__(self, values: FunctionValues) -> None:
        self.values = values
        self.origins: list[Origin] = []
        self.others: list[Origin] = []
        self.seen: set[tuple[int, Axis]] = set()

    def steps(self, value: int, axes: Axes) -> list[Reason]:
        """Why `value` is split, or partial, along `axes`: the steps back to annotations.

        Empty where none is found, or where an earlier search has been at the value.
        """
        sharding, number = self.values.sharding(value), self.values.graph_value(value)
        if self.values.origins is None and value in self.values.function.arguments:
            given = self.values.in_type(self.values.function.arguments.index(value))
            return [given] if given else []
        known = self.values.known(number)
        dims: dict[tuple[int, Axis | None], None] = {}
        others = []
        for axis in axes:
            dim = dim_along(sharding, axis)
            if dim is not None and is_known(sharding, known, axis, dim):
                dims.setdefault((dim, self.values.same_axis(sharding, known, axis)))
            elif (value, axis) not in self.seen:
                self.seen.add((value, axis))
                others.append(axis)
        chains = [step for dim, axis in dims for step in self.chain(number, dim, axis)]
        return [*self._on_through(value, others), *chains]

    def _on_through(self, value: int, axes: Sequence[Axis]) -> list[Reason]:
        """Why the op that makes `value` splits it along `axes`: because of its operands."""
        op = self.values.maker.get(value)
        steps: list[Reason] = []
        left = list(axes)
        while op is not None and left:
            along, further = self._through_operand(op, value, left)
            steps += further or self._sliced_for(op, left[0])
            left = [axis for axis in left if axis not in along]
        return steps

    def _through_operand(
        self, op: Op, result: int, axes: Sequence[Axis]
    ) -> tuple[Sequence[Axis], list[Reason]]:
        """Through the first operand that leads to an annotation.

        Also returns the axes that come from it: the first, and those that split like it.
        """
        made = self.values.sharding(result)
        for what, value in self._operands_along(op, axes[0]):
            sharding = self.values.sharding(value)
            alike = [
                axis
                for axis in axes
                if dim_along(sharding, axis) == dim_along(sharding, axes[0])
                and dim_along(made, axis) == dim_along(made, axes[0])
                and self._is_made_along(value, axis) == self._is_made_along(value, axes[0])
            ]
            further = self.steps(value, tuple(alike))
            if further and self.values.is_collective(op):
                return alike, further
            if further:
                if made is not None and any(overlap(axes[0], each) for each in made.partial):
                    self._note_others(op, value, axes[0])
                return alike, [self._passed_on(op, (what, value), tuple(alike), made), *further]
        return axes[:1], []

    def _note_others(self, op: Op, first: int, axis: Axis) -> None:
        """Note the annotations behind the operands beside the first one."""
        for _, value in self._operands_along(op, axis):
            if value != first:
                beside = SplitTrace(self.values)
                beside.steps(value, (axis,))
                self.others += [*beside.origins, *beside.others]

    def _passed_on(
        self, op: Op, found: tuple[str, int], axes: Axes, result: Sharding | None
    ) -> Reason:
        what, value = found
        sharding = self.values.sharding(value)
        assert sharding is not None, "it is split along the axes"
        names = self.values.axes_text(axes, sharding)
        is_partial = result is not None and any(overlap(axes[0], each) for each in result.partial)
        dim = dim_along(sharding, axes[0])
        if dim is None:
            return at(f"'{op.name}' op computes on partial results along {names} in {what}", op)
        if is_partial and op.name in LOOPS:
            return at(
                f"'{op.name}' op adds up partial sums along {names}, reduced once after it", op
            )
        if is_partial and result is not None:
            return at(
                f"'{op.name}' op {reducing(result)} over dimension {dim} of {what}, which is split "
                f"along {names}: each device has a partial result",
                op,
            )
        return at(f"'{op.name}' op has {what} split in dimension {dim} along {names}", op)

    def _operands_along(self, op: Op, axis: Axis) -> Iterator[tuple[str, int]]:
        """The operands that are split or partial along `axis`, with their descriptions.

        First those that are made so, then those that collectives have brought there.
        """
        operands = [(f"operand {number}", value) for number, value in enumerate(op.operands)]
        operands += [("a captured operand", value) for _, _, value in op.captures]
        along = [each for each in operands if self._uses(each[1], axis)]
        yield from sorted(along, key=lambda each: not self._is_made_along(each[1], axis))

    def _uses(self, value: int, axis: Axis) -> bool:
        sharding = self.values.sharding(value)
        return sharding is not None and (
            dim_along(sharding, axis) is not None
            or any(overlap(axis, each) for each in sharding.partial)
        )

    def _is_made_along(self, value: int, axis: Axis) -> bool:
        return self._uses(self.values.made_as(value), axis)

    def _sliced_for(self, op: Op, axis: Axis) -> list[Reason]:
        """Why a device takes a slice of a whole value: a result of the op has the axis."""
        is_own = not self.values.is_collective(op)
        readers = [op] if is_own else list(self.values.read_by(op.results[0]))
        for reader in readers:
            found = self._result_along(reader, axis)
            if found is not None:
                dim, number = found
                text = f"'{reader.name}' op computes only the shard that is needed"
                return [at(text, reader), *self.chain(number, dim)]
        return []

    def _result_along(self, op: Op, axis: Axis) -> tuple[int, int] | None:
        """A dimension of the first result that propagation splits along `axis`, and its number."""
        for value in op.results:
            number = self.values.graph_value(value)
            dim = dim_along(self.values.known(number), axis)
            if dim is not None:
                return dim, number
        return None

    def chain(self, number: int, dim: int, axis: Axis | None = None) -> list[Reason]:
        """The steps by which propagation split a dimension of a value of its graph, along `axis`.

        The last one is the annotation.
        """
        origins = self.values.origins
        assert origins is not None, "its graph has the value"
        origin = origins.origin(number, dim, axis)
        self.origins += [origin] if origin else []
        *steps, last = origins.chain(number, dim, axis)
        return [
            *(Reason(each.message, each.location) for each in steps),
            Reason(last.message, last.location, annotation=True),
        ]
