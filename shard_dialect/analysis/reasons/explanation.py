"""Why a collective is there: which two shardings met, and the annotations that they come from.

A collective of the distributed form changes the sharding of a value on its way from the op that
makes it to the ops that read it. `SplitTrace` follows the value back to the annotation that split
it along the collective's axes, and `WholeReaders` looks for what keeps its readers from being split
likewise.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from shard_dialect.analysis.reasons.function_values import FunctionValues, at
from shard_dialect.analysis.reasons.local_values import LocalValues, signatures_of
from shard_dialect.analysis.reasons.marks import mark_of
from shard_dialect.analysis.reasons.split_trace import SplitTrace
from shard_dialect.analysis.reasons.whole_readers import WholeReaders
from shard_dialect.analysis.reasons.why import Reason, Why
from shard_dialect.errors import as_symbol
from shard_dialect.ir.bindings import ir
from shard_dialect.ir.diagnostics import location_text
from shard_dialect.ir.function import form_of, functions_of
from shard_dialect.ir.mesh.mesh_dialect import COLLECTIVES, TRANSFER
from shard_dialect.ir.mesh.sharding_attributes import Shardings, stages_named
from shard_dialect.ir.numbered_function import Op, read_functions
from shard_dialect.model import Sharding
from shard_dialect.ops import record_of, rule_of
from shard_dialect.passes.propagate.origins import Origins

_DONE = "mesh.done"
"""The end of a collective that is there already, by its start."""
_ROLL = "mesh.roll"
"""An op that sends elements to other devices; so do those whose windows begin far away."""


class Reasons:
    """The reasons of the collectives of a module in the distributed form."""

    def __init__(self, module: ir.Operation, origins: Origins | None) -> None:
        shardings = Shardings.of(module)
        functions = read_functions(functions_of(module))
        signatures = signatures_of(module, shardings)
        self._functions = [
            LocalValues(each, shardings, signatures)
            if form_of(each.handle) == "local"
            else FunctionValues(each, shardings, origins)
            for each in functions
        ]

    def of_collectives(self) -> Iterator[tuple[ir.Operation, Why]]:
        """Each collective of the module with its reason."""
        for values in self._functions:
            for op in values.function.ops:
                is_collective = values.is_collective(op) and op.operands and op.results
                moved = None if isinstance(values, LocalValues) else _moved(values, op)
                if moved is not None:
                    yield op.handle, _why_moved(values, op, *moved)
                elif op.name == TRANSFER or (is_collective and op.name != _DONE):
                    yield op.handle, _Explanation(values, op).why()


def _moved(values: FunctionValues, op: Op) -> tuple[int, int] | None:
    """The operand, and its dimension, of which an op moves elements from shard to shard."""
    if op.name == _ROLL:
        return 0, op.handle.attributes["tensor_axis"].value
    record = record_of(op.handle)
    rule = rule_of(op.handle) if record is not None and record.partition is not None else None
    for window in rule.windows if rule is not None else ():
        sharding = values.sharding(op.operands[window.operand])
        axes = sharding.split_axes[window.dim] if sharding is not None else ()
        if sharding is not None and axes:
            reading = window.windows.reading(values.shardings.grid(sharding.grid).axes_size(axes))
            if reading is not None and reading.rounds:
                return window.operand, window.dim
    return None


def _why_moved(values: FunctionValues, op: Op, operand: int, dim: int) -> Why:
    """Why devices send elements as a part of an op: the split of the dimension that it moves."""
    source = values.made_as(op.operands[operand])
    sharding, trace = values.sharding(source), SplitTrace(values)
    text = f"'{op.name}' op moves elements of dimension {dim} from one shard to another"
    steps = trace.steps(source, sharding.split_axes[dim] if sharding is not None else ())
    readers = tuple(
        at(f"'{each.name}' op reads it", each) for each in values.read_by(op.results[0])
    )
    origins = dict.fromkeys(trace.origins)
    others = tuple(each for each in dict.fromkeys(trace.others) if each not in origins)
    return Why(_once([at(text, op), *steps]), readers, tuple(origins), others, ())


class _Explanation:
    """Explains one collective of a function."""

    def __init__(self, values: FunctionValues, collective: Op) -> None:
        self.values = values
        self.op = collective
        self.source = self.values.made_as(collective.operands[0])
        self.readers = _distinct(self.values.read_by(collective.results[0]))
        self.stages = stages_named(collective.handle)
        if self.stages is None:
            self.grid, self.axes = self.values.collective(collective)

    def why(self) -> Why:
        if self.stages is not None:
            return self._between_stages(*self.stages)
        trace = SplitTrace(self.values)
        whole = WholeReaders(self.values, self.source, self.readers, self.grid, self.axes, trace)
        halves = whole.steps(), trace.steps(self.source, self.axes)
        ends = self._written() or ([] if halves[1] else self._entered())
        steps = [self._meeting(), *halves[0], *halves[1], *ends]
        readers = tuple(self._reading())
        origins = dict.fromkeys(trace.origins)
        others = [each for each in dict.fromkeys(trace.others) if each not in origins]
        return Why(_once(steps), readers, tuple(origins), tuple(others), tuple(whole.annotations))

    def _between_stages(self, source: str, target: str) -> Why:
        """Why a value goes from one stage of a pipeline to another: its op and its readers."""
        maker = self.values.maker.get(self.source)
        made = f"'{maker.name}' op makes the value" if maker else "the value is"
        steps = [at(f"{made} on stage {as_symbol(source)}", maker or self.op)]
        steps += [
            at(f"'{each.name}' op runs on stage {as_symbol(target)}", each) for each in self.readers
        ]
        return Why((*steps, *self._written()), tuple(self._reading()))

    def _reading(self) -> Iterator[Reason]:
        for each in self.readers:
            yield at(f"'{each.name}' op reads it", each)

    def _written(self) -> list[Reason]:
        """The collective itself, if it is the program's own."""
        mark, origins = mark_of(self.op.location), self.values.origins
        if mark is None or origins is None:
            return []
        own = origins.graph.functions[mark.function].ops[mark.op]
        text = f"the program itself has this '{own.name}' op"
        place = location_text(self.op.location)
        is_it = own.name in (*COLLECTIVES, TRANSFER)
        return [Reason(text, place, annotation=True)] if is_it else []

    def _entered(self) -> list[Reason]:
        """Where the value comes from, if no annotation is found behind its sharding."""
        arguments = self.values.function.arguments
        function = self.values.function.handle
        if self.source not in arguments:
            return []
        number = arguments.index(self.source)
        location = function.regions[0].blocks[0].arguments[number].location
        name = as_symbol(self.values.function.name)
        text = f"argument {number} of {name} is sharded so for its callers"
        return [Reason(text, location_text(location))]

    def _meeting(self) -> Reason:
        """Which two shardings met."""
        made, needed = self.values.sharding(self.source), self._needed()
        maker = self.values.maker.get(self.source)
        if maker is not None:
            what = f"'{maker.name}' op makes the value"
        elif self.source in self.values.function.arguments:
            number = self.values.function.arguments.index(self.source)
            what = f"{self.values.argument_text(number)} comes"
        else:
            what = "the argument of a block comes"
        text = f"{what}{self.values.as_text(made)}"
        if self.readers:
            text += f", '{self.readers[0].name}' op takes it{self.values.as_text(needed)}"
        return at(text, self.readers[0] if self.readers else self.op)

    def _needed(self) -> Sharding | None:
        """The sharding in which the first reader takes the value."""
        if not self.readers:
            return self.values.sharding(self.op.results[0])
        for value in self.readers[0].read:
            if self.values.made_as(value) == self.source:
                return self.values.sharding(value)
        return None


def _once(steps: Sequence[Reason]) -> tuple[Reason, ...]:
    """Each step once: where both sides have come the same way, it is the second one's."""
    return tuple(reversed(dict.fromkeys(reversed(steps))))


def _distinct(ops: Iterable[Op]) -> list[Op]:
    return list({id(op): op for op in ops}.values())
