"""Why a collective is there: which two shardings met, and the annotations that they come from.

A collective of the distributed form changes the sharding of a value on its way from the op that
makes it to the ops that read it. `Reasons` follows the value back to the annotation that split it
along the collective's axes, and looks for what keeps its readers from being split likewise.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from shard_dialect.analysis.reasons.marks import mark_of
from shard_dialect.errors import Diagnostic
from shard_dialect.ir.bindings import ir
from shard_dialect.ir.diagnostics import location_text
from shard_dialect.ir.function import functions_of
from shard_dialect.ir.mesh.mesh_collectives import read_collective
from shard_dialect.ir.mesh.mesh_dialect import COLLECTIVES
from shard_dialect.ir.mesh.sharding_attributes import Shardings
from shard_dialect.ir.numbered_function import Function, Op
from shard_dialect.ir.read_function import read_functions
from shard_dialect.model import Axes, Axis, Sharding
from shard_dialect.model.axis import overlap
from shard_dialect.passes.propagate.origins import Origin, Origins
from shard_dialect.propagation.graph import NO_TENSOR

_FARTHEST = 200
"""The ops that are visited in search of the annotation that keeps a dimension whole."""


@dataclass(frozen=True)
class Reason:
    """One step of an explanation, with its place, `file:line:col`, in the user's file."""

    text: str
    location: str | None


@dataclass(frozen=True)
class Why:
    """Why a collective is there.

    The last of `steps` is at an annotation, if one is behind it; `readers` are the places of the
    ops that share the result, and `origins` the annotations that the steps lead to.
    """

    steps: tuple[Reason, ...]
    readers: tuple[Reason, ...] = ()
    origins: tuple[Origin, ...] = ()
    whole: tuple[Origin, ...] = ()
    """The annotations that do not split where the collective gathers or reduces."""


class Reasons:
    """The reasons of the collectives of a module in the distributed form."""

    def __init__(self, module: ir.Operation, origins: Origins | None) -> None:
        shardings = Shardings.of(module)
        functions = read_functions(functions_of(module))
        self._functions = [_Values(each, shardings, origins) for each in functions]

    def of_collectives(self) -> Iterator[tuple[ir.Operation, Why]]:
        """Each collective of the module with its reason."""
        for values in self._functions:
            for op in values.function.ops:
                if op.name in COLLECTIVES and op.operands and op.results:
                    yield op.handle, _Explanation(values, op).why()


class _Values:
    """The values of one distributed function: where they are made and read, and their origins."""

    def __init__(self, function: Function, shardings: Shardings, origins: Origins | None) -> None:
        self.function = function
        self.shardings = shardings
        self.origins = origins
        self.maker = {value: op for op in function.ops for value in op.results}
        self.readers: dict[int, list[Op]] = {}
        for op in function.ops:
            for value in dict.fromkeys(op.read):
                self.readers.setdefault(value, []).append(op)
        self._block_arguments = {
            value: (op, block, number)
            for op in function.ops
            for block, each in enumerate(op.blocks)
            for number, value in enumerate(each.arguments)
        }
        names = [each.name for each in origins.graph.functions] if origins else []
        self._index = names.index(function.name) if function.name in names else None

    def sharding(self, value: int) -> Sharding | None:
        """The sharding in the value's type."""
        return self.shardings.of_type(self.function.values[value].kind.type)

    def original(self, op: Op) -> tuple[int, Op] | None:
        """The op of the propagated form from which `op` is made, after its function's index."""
        mark = mark_of(op.location)
        if self.origins is None or mark is None:
            return None
        original = self.origins.graph.functions[mark.function].ops[mark.op]
        is_same = original.name == op.name and len(original.results) == len(op.results)
        return (mark.function, original) if is_same else None

    def graph_value(self, value: int) -> int:
        """The number that propagation's graph has for a value; `NO_TENSOR` if it has none."""
        found = self._propagated(value)
        if found is None or self.origins is None:
            return NO_TENSOR
        return self.origins.graph.number_of(*found)

    def _propagated(self, value: int) -> tuple[int, int] | None:
        if value in self.function.arguments:
            if self._index is None or self.origins is None:
                return None
            arguments = self.origins.graph.functions[self._index].arguments
            number = self.function.arguments.index(value)
            return (self._index, arguments[number]) if number < len(arguments) else None
        if value in self._block_arguments:
            op, block, number = self._block_arguments[value]
            original = self.original(op)
            if original is None or len(original[1].blocks) != len(op.blocks):
                return None
            arguments = original[1].blocks[block].arguments
            return (original[0], arguments[number]) if number < len(arguments) else None
        op = self.maker[value]
        original = self.original(op)
        if original is None:
            return None
        return original[0], original[1].results[op.results.index(value)]

    def known(self, number: int) -> Sharding | None:
        """The sharding that propagation gave a value of its graph."""
        if number == NO_TENSOR or self.origins is None:
            return None
        annotation = self.origins.engine.known(number)
        return annotation.sharding if annotation is not None else None

    def text(self, sharding: Sharding) -> str:
        """A sharding with the names of the grid's axes."""
        grid = self.shardings.grid(sharding.grid)
        split = ", ".join(grid.axes_text(axes) for axes in sharding.split_axes)
        if not sharding.partial:
            return f"[{split}]"
        return f"[{split}], partial {sharding.reduction}s along {grid.axes_text(sharding.partial)}"

    def axes_text(self, axes: Axes, sharding: Sharding) -> str:
        """Axes by their names in the sharding's grid."""
        return self.shardings.grid(sharding.grid).axes_text(axes)


class _Explanation:
    """Explains one collective of a function."""

    def __init__(self, values: _Values, collective: Op) -> None:
        self.values = values
        self.op = collective
        self.origins: list[Origin] = []
        self.whole: list[Origin] = []
        self.seen: set[tuple[int, Axis]] = set()
        self.source = self._made_as(collective.operands[0])
        self.readers = _distinct(self._read_by(collective.results[0]))
        steps = read_collective(collective.handle).steps
        self.axes = tuple(dict.fromkeys(axis for step in steps for axis in step.axes))

    def why(self) -> Why:
        halves = self._kept_whole(), self._came_from(self.source, self.axes)
        ends = self._written() or ([] if halves[1] else self._entered())
        steps = [self._meeting(), *halves[0], *halves[1], *ends]
        readers = tuple(_at(f"'{each.name}' op reads it", each) for each in self.readers)
        distinct = tuple(each for each, _ in groupby(steps))
        return Why(distinct, readers, tuple(dict.fromkeys(self.origins)), tuple(self.whole))

    def _written(self) -> list[Reason]:
        """The collective itself, if it is the program's own."""
        mark, origins = mark_of(self.op.location), self.values.origins
        if mark is None or origins is None:
            return []
        own = origins.graph.functions[mark.function].ops[mark.op]
        text = f"the program itself has this '{own.name}' op"
        return [_at(text, self.op)] if own.name in COLLECTIVES else []

    def _entered(self) -> list[Reason]:
        """Where the value comes from, if no annotation is found behind its sharding."""
        arguments = self.values.function.arguments
        function = self.values.function.handle
        if self.source not in arguments:
            return []
        number = arguments.index(self.source)
        location = function.regions[0].blocks[0].arguments[number].location
        text = f"argument {number} of @{self.values.function.name} is sharded so for its callers"
        return [Reason(text, location_text(location))]

    def _made_as(self, value: int) -> int:
        """The value that collectives have turned into `value`."""
        while value in self.values.maker and self.values.maker[value].name in COLLECTIVES:
            value = self.values.maker[value].operands[0]
        return value

    def _read_by(self, value: int) -> Iterator[Op]:
        """The ops that read `value`, also after further collectives."""
        for op in self.values.readers.get(value, ()):
            if op.name in COLLECTIVES:
                yield from self._read_by(op.results[0])
            else:
                yield op

    def _meeting(self) -> Reason:
        """Which two shardings met."""
        made, needed = self.values.sharding(self.source), self._needed()
        maker = self.values.maker.get(self.source)
        if maker is not None:
            what = f"'{maker.name}' op makes the value"
        elif self.source in self.values.function.arguments:
            what = f"argument {self.values.function.arguments.index(self.source)} comes"
        else:
            what = "the argument of a block comes"
        text = f"{what} as {self.values.text(made) if made else 'replicated'}"
        if self.readers:
            is_as = self.values.text(needed) if needed else "replicated"
            text += f", '{self.readers[0].name}' op takes it as {is_as}"
        return _at(text, self.readers[0] if self.readers else self.op)

    def _needed(self) -> Sharding | None:
        """The sharding in which the first reader takes the value."""
        if not self.readers:
            return self.values.sharding(self.op.results[0])
        for value in self.readers[0].read:
            if self._made_as(value) == self.source:
                return self.values.sharding(value)
        return None

    # Where the split of the source comes from

    def _came_from(self, value: int, axes: Axes) -> list[Reason]:
        """Why `value` is split, or partial, along `axes`: the steps back to annotations.

        Empty where none is found, or where an earlier search has been at the value.
        """
        sharding, number = self.values.sharding(value), self.values.graph_value(value)
        known = self.values.known(number)
        dims: dict[int, None] = {}
        others = []
        for axis in axes:
            dim = _dim_along(sharding, axis)
            if dim is not None and _is_known(sharding, known, axis, dim):
                dims[dim] = None
            elif (value, axis) not in self.seen:
                self.seen.add((value, axis))
                others.append(axis)
        chains = [step for dim in dims for step in self._chain(number, dim)]
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
                if _dim_along(sharding, axis) == _dim_along(sharding, axes[0])
                and _dim_along(made, axis) == _dim_along(made, axes[0])
            ]
            further = self._came_from(value, tuple(alike))
            if further and op.name in COLLECTIVES:
                return alike, further
            if further:
                return alike, [self._passed_on(op, (what, value), tuple(alike), made), *further]
        return axes[:1], []

    def _passed_on(
        self, op: Op, found: tuple[str, int], axes: Axes, result: Sharding | None
    ) -> Reason:
        what, value = found
        sharding = self.values.sharding(value)
        assert sharding is not None, "it is split along the axes"
        names = self.values.axes_text(axes, sharding)
        is_partial = result is not None and any(overlap(axes[0], each) for each in result.partial)
        dim = _dim_along(sharding, axes[0])
        if dim is None:
            return _at(f"'{op.name}' op computes on partial results along {names} in {what}", op)
        if is_partial:
            return _at(
                f"'{op.name}' op sums over dimension {dim} of {what}, which is split along "
                f"{names}: each device has a partial result",
                op,
            )
        return _at(f"'{op.name}' op has {what} split in dimension {dim} along {names}", op)

    def _operands_along(self, op: Op, axis: Axis) -> Iterator[tuple[str, int]]:
        """The operands that are split or partial along `axis`, with their descriptions."""
        operands = [(f"operand {number}", value) for number, value in enumerate(op.operands)]
        operands += [("a captured operand", value) for _, _, value in op.captures]
        for what, value in operands:
            sharding = self.values.sharding(value)
            if sharding is not None and _uses(sharding, axis):
                yield what, value

    def _sliced_for(self, op: Op, axis: Axis) -> list[Reason]:
        """Why a device takes a slice of a whole value: a result of the op has the axis."""
        readers = list(self._read_by(op.results[0])) if op.name in COLLECTIVES else [op]
        for reader in readers:
            found = self._result_along(reader, axis)
            if found is not None:
                dim, number = found
                text = f"'{reader.name}' op computes only the shard that is needed"
                return [_at(text, reader), *self._chain(number, dim)]
        return []

    def _result_along(self, op: Op, axis: Axis) -> tuple[int, int] | None:
        """A dimension of the first result that propagation splits along `axis`, and its number."""
        for value in op.results:
            number = self.values.graph_value(value)
            dim = _dim_along(self.values.known(number), axis)
            if dim is not None:
                return dim, number
        return None

    def _chain(self, number: int, dim: int) -> list[Reason]:
        origins = self.values.origins
        assert origins is not None, "its graph has the value"
        origin = origins.origin(number, dim)
        self.origins += [origin] if origin else []
        return _reasons(origins.chain(number, dim))

    # What keeps the readers from being split likewise

    def _kept_whole(self) -> list[Reason]:
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
            dim = _dim_along(sharding, axis)
            if sharding is None or dim is None:
                continue
            is_same = self._made_as(value) == self.source
            names = self.values.axes_text((axis,), sharding)
            verb = "takes" if is_same else "has"
            text = f"'{reader.name}' op {verb} {what} split in dimension {dim} along {names}"
            number = self.values.graph_value(self.source if is_same else value)
            if _is_known(sharding, self.values.known(number), axis, dim):
                return [_at(text, reader), *self._chain(number, dim)]
            return [_at(f"{text}: no annotation asks for it, it moves fewer bytes", reader)]
        return None

    def _returned(self, reader: Op) -> list[Reason]:
        origins = self.values.origins
        index = next(
            (n for n, each in enumerate(reader.operands) if self._made_as(each) == self.source),
            None,
        )
        original = self.values.original(reader)
        if origins is None or original is None or index is None:
            return []
        number = origins.graph.exits.get((original[0], index), NO_TENSOR)
        known = self.values.known(number)
        self.whole.append(origins.origin_of_result(original[0], index, 0))
        if known is None:
            return [_at(f"result {index} is returned replicated: nothing splits it", reader)]
        return [_at(f"result {index} is returned as {self.values.text(known)}", reader)]

    def _unsplit_results(self, reader: Op) -> list[Reason]:
        """The annotation after the reader that keeps what it makes whole, if there is one."""
        origins, original = self.values.origins, self.values.original(reader)
        if origins is None or original is None:
            return []
        index, op = original
        function = origins.graph.functions[index]
        annotated, made = _next_annotation(function, op)
        names = self.values.axes_text(self.axes, self._grid_sharding())
        if annotated is None:
            return [_at(f"nothing splits the result of '{reader.name}' op along {names}", reader)]
        text = f"the result of '{reader.name}' op is not split along {names}: "
        if annotated.name == "func.return":
            self.whole += [
                origins.origin_of_result(index, number, 0)
                for number, value in enumerate(annotated.operands)
                if value in made
            ]
            return [Reason(f"{text}it is returned so", origins.place_of(index, annotated))]
        self.whole.append(origins.origin_of_op(index, annotated, 0))
        return [Reason(f"{text}annotated so", origins.place_of(index, annotated))]

    def _grid_sharding(self) -> Sharding:
        for value in (self.op.operands[0], self.op.results[0]):
            sharding = self.values.sharding(value)
            if sharding is not None:
                return sharding
        raise AssertionError("a collective has a sharded operand or result")


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


def _distinct(ops: Iterable[Op]) -> list[Op]:
    return list({id(op): op for op in ops}.values())


def _uses(sharding: Sharding, axis: Axis) -> bool:
    return _dim_along(sharding, axis) is not None or any(
        overlap(axis, each) for each in sharding.partial
    )


def _is_known(sharding: Sharding | None, propagated: Sharding | None, axis: Axis, dim: int) -> bool:
    """Whether propagation has split a dimension along an axis of a sharding.

    Materialization may have refined the grid, and then the axes have other numbers.
    """
    if sharding is None or propagated is None:
        return False
    if sharding.grid != propagated.grid:
        return bool(propagated.split_axes[dim])
    return _dim_along(propagated, axis) == dim


def _dim_along(sharding: Sharding | None, axis: Axis) -> int | None:
    """The dimension that is split along an axis, or a part of it."""
    for dim, axes in enumerate(sharding.split_axes if sharding else ()):
        if any(overlap(axis, each) for each in axes):
            return dim
    return None


def _at(text: str, op: Op) -> Reason:
    return Reason(text, location_text(op.location))


def _reasons(notes: Sequence[Diagnostic]) -> list[Reason]:
    return [Reason(each.message, each.location) for each in notes]
