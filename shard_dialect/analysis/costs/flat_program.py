"""A program as one list of steps, for the analysis of lifetimes: calls inlined, loops opened once.

    %r = stablehlo.while(%s = %x)              0  state s of x
      body: %a = stablehlo.tanh %s             1  a from s
            return %a                          2  s from a
    %y = stablehlo.add %r, %z                  3  y from r, which is s

A *slot* is a value of one call. A view is the slot of its operand, and a value that is not stored
(a fused one) stands for the slots from which it is computed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from shard_dialect.analysis.costs.local_ops import Block, Function, LocalProgram, Op, Value
from shard_dialect.ir.numbered_function import LOOPS

VIEWS = frozenset(
    "bufferization.to_tensor mesh.done stablehlo.optimization_barrier stablehlo.reshape "
    "tensor.cast tensor.collapse_shape tensor.expand_shape tensor.reshape tosa.identity "
    "tosa.reshape".split()
)
"""Ops whose results are the memory of their operands."""
_UNDEFINED = "tensor.empty"


@dataclass(slots=True)
class Slot:
    """Memory for one value; `first` and `last` are the numbers of the first and last step."""

    number: int
    value: Value
    location: str | None
    first: int
    last: int
    is_constant: bool = False


@dataclass(frozen=True, slots=True)
class Step:
    """One op at one place: the slots that it reads and those that it writes.

    `passed` are pairs of a slot and the one whose memory it goes on with, at a loop's beginning and
    end.
    """

    op: Op
    reads: tuple[int, ...]
    writes: tuple[int, ...]
    passed: tuple[tuple[int, int], ...] = ()
    overwritten: tuple[int, ...] = ()
    """The slots of what the op writes its results into, where nothing reads them later."""


@dataclass
class FlatProgram:
    """The steps in order, the slots, and the slots of arguments and results.

    `prefer[s]` is the slot whose memory s should take, if it is free by then: what a loop's body
    yields goes where the loop keeps it. `same[s]` is the slot of another branch whose memory s has.
    """

    steps: list[Step] = field(default_factory=list)
    slots: list[Slot] = field(default_factory=list)
    arguments: list[int] = field(default_factory=list)
    results: list[int | None] = field(default_factory=list)
    """`None` for a scalar."""
    prefer: dict[int, int] = field(default_factory=dict)
    same: dict[int, int] = field(default_factory=dict)


NotStored = Callable[[Op], bool]


def flatten(program: LocalProgram, not_stored: NotStored = lambda op: False) -> FlatProgram:
    """The steps of the entry. `not_stored` tells which ops' results are never in memory."""
    return _Flattening(not_stored).run(program.entry)


_Slots = tuple[int, ...]
"""The stored tensors that a value stands for: none for a scalar, several for a fused value."""


class _Values(dict[int, _Slots]):
    """The slots by the number of the value; `fused` are the values that are not stored."""

    def __init__(self) -> None:
        super().__init__()
        self.fused: set[int] = set()


class _Flattening:
    def __init__(self, not_stored: NotStored) -> None:
        self._flat = FlatProgram()
        self._not_stored = not_stored
        self._used: list[set[int]] = []  # in each open loop

    def run(self, entry: Function) -> FlatProgram:
        values: list[_Slots] = []
        for value, info in zip(entry.body.arguments, entry.arguments, strict=True):
            values.append((self._slot(value, info.location),) if value.tensor else ())
        self._flat.arguments = [each for slots in values for each in slots]
        ends = self._function(entry, values)
        for slots, info in zip(ends, entry.results, strict=True):
            self._flat.results.append(slots[0] if info.tensor and slots else None)
        return self._flat

    @property
    def _now(self) -> int:
        return len(self._flat.steps)

    def _slot(self, value: Value, location: str | None, *, constant: bool = False) -> int:
        number = len(self._flat.slots)
        self._flat.slots.append(Slot(number, value, location, self._now, self._now, constant))
        return number

    def _step(
        self,
        op: Op,
        reads: Iterable[int],
        writes: Iterable[int],
        passed: Iterable[tuple[int, int]] = (),
        overwritten: Iterable[int] = (),
    ) -> None:
        """Add a step; the slots live on until it."""
        step = Step(
            op, tuple(dict.fromkeys(reads)), tuple(writes), tuple(passed), tuple(overwritten)
        )
        for slot in (*step.reads, *step.writes, *(slot for slot, _ in step.passed)):
            self._flat.slots[slot].last = max(self._flat.slots[slot].last, self._now)
            for used in self._used:
                used.add(slot)
        self._flat.steps.append(step)

    def _function(self, function: Function, arguments: Sequence[_Slots]) -> list[_Slots]:
        """Inline a function; a graph of blocks may run in any order, so all of it lives on."""
        values = _Values()
        for value, slots in zip(function.body.arguments, arguments, strict=True):
            values[value.number] = slots
        if len(function.blocks) == 1:
            return self._block(function.body, values)
        start = self._now
        self._used.append(set())
        passed = [value for block in function.blocks[1:] for value in block.arguments]
        made = [slot for value in passed for slot in self._define(value, None, values)]
        self._step(function.body.ops[-1], (), made)  # what branches pass, from the start on
        ends: list[_Slots] = [()] * len(function.results)  # of a loop without an end
        for block in function.blocks:
            last = self._block(block, values)
            ends = last if block.ops[-1].name == "func.return" else ends
        self._close(start, outside_only=False)
        return ends

    def _close(self, start: int, *, outside_only: bool = True) -> None:
        """End a loop: what it reads from outside is needed until its last iteration."""
        for number in self._used.pop():
            slot = self._flat.slots[number]
            if slot.first < start or not outside_only:
                slot.last = max(slot.last, self._now - 1)

    def _define(self, value: Value, location: str | None, values: _Values) -> tuple[int, ...]:
        values[value.number] = (self._slot(value, location),) if value.tensor else ()
        return values[value.number]

    def _block(self, block: Block, values: _Values) -> list[_Slots]:
        """Add the block's steps; return what its last op passes on."""
        for op in block.ops[:-1]:
            self._op(op, values)
        end = block.ops[-1]
        reads = [slot for value in end.reads for slot in values[value.number]]
        stored = [self._stored(end, value, values) for value in end.operands]
        self._step(end, [*reads, *(slot for slots in stored for slot in slots)], ())
        for inner in end.blocks:  # the writes of `scf.forall.in_parallel`
            self._block(inner, values)
        return stored

    def _stored(self, op: Op, value: Value, values: _Values) -> _Slots:
        """One slot for a value that leaves a block, though it may not be stored inside of it."""
        slots = values[value.number]
        if value.tensor is None or (slots and value.number not in values.fused):
            return slots
        slot = self._slot(value, op.location)
        self._step(op, slots, (slot,))
        values[value.number] = (slot,)
        values.fused.discard(value.number)
        return (slot,)

    def _op(self, op: Op, values: _Values) -> None:
        reads = [slot for value in op.reads for slot in values[value.number]]
        if op.callee:
            arguments = [values[each.number] for each in op.operands]
            ends = self._function(op.callee, arguments)
            for value, slots in zip(op.results, ends, strict=True):
                values[value.number] = slots
        elif op.name in LOOPS:
            self._loop(op, values)
        elif op.blocks:
            self._branches(op, values, reads)
        elif op.name in VIEWS:
            self._views(op, values, reads)
        elif op.name == _UNDEFINED:
            values[op.results[0].number] = ()
        elif self._not_stored(op):
            for value in op.results:
                values[value.number] = tuple(dict.fromkeys(reads))
                values.fused.add(value.number)
        else:
            self._stored_results(op, values, reads)

    def _views(self, op: Op, values: _Values, reads: list[int]) -> None:
        self._step(op, reads, ())
        for value, operand in zip(op.results, op.operands, strict=False):
            values[value.number] = values[operand.number]
            if operand.number in values.fused:
                values.fused.add(value.number)

    def _stored_results(self, op: Op, values: _Values, reads: list[int]) -> None:
        constant = op.name.endswith(("constant", ".const"))
        writes = []
        for value in op.results:
            if value.tensor is None or (constant and op.is_splat):
                values[value.number] = ()
                continue
            slot = self._slot(value, op.location, constant=constant)
            values[value.number] = (slot,)
            writes.append(slot)
        written = [
            values[op.operands[each].number]
            for each in destinations(op)
            if op.operands[each].number not in values.fused
        ]
        overwritten = [slot for slots in written for slot in slots]
        self._step(op, reads, writes, overwritten=overwritten)

    def _branches(self, op: Op, values: _Values, reads: list[int]) -> None:
        """The values that branches yield for one result share one memory with it."""
        if op.position is not None and len(op.blocks) == 1:
            self._taken(op, values)
            return
        start = self._now
        self._step(op, reads, ())
        ends = []
        for block in op.blocks:
            extra = op.operands[1:] if block.arguments else ()
            for argument, operand in zip(block.arguments, extra, strict=True):
                values[argument.number] = values[operand.number]
            ends.append(self._block(block, values))
        passed, written = [], []
        for number, value in enumerate(op.results):
            made = [
                slot
                for each in ends
                for slots in each[number : number + 1]
                for slot in slots
                if self._flat.slots[slot].first > start
            ]
            for other in made[1:]:
                self._flat.same[other] = made[0]
            for slot in self._define(value, op.location, values):
                written += [] if made else [slot]
                passed += [(slot, each) for each in made[:1]]
        self._step(op, [source for _, source in passed], written, passed)

    def _taken(self, op: Op, values: _Values) -> None:
        """Add the only branch that devices at one position take; its results are what it yields."""
        *ops, end = op.blocks[0].ops
        for each in ops:
            self._op(each, values)
        for value, operand in zip(op.results, end.operands, strict=True):
            values[value.number] = values[operand.number]
            if operand.number in values.fused:
                values.fused.add(value.number)

    def _loop(self, op: Op, values: _Values) -> None:
        inits = _carried(op)
        stored = [self._stored(op, each, values) for each in inits]
        start = self._now
        states: list[_Slots] = [
            (self._slot(each, op.location),) if each.tensor else () for each in inits
        ]
        pairs = [(s[0], i[0]) for s, i in zip(states, stored, strict=True) if s]
        self._step(op, [init for _, init in pairs], (), pairs)
        self._used.append(set())
        leaving = self._body(op, values, states)
        self._close(start)
        passed = []
        for value, slots in zip(op.results, leaving, strict=False):
            for source in slots:
                (slot,) = self._define(value, op.location, values)
                passed.append((slot, source))
            if not slots:
                values[value.number] = ()
        states_of = {slot for slots in states for slot in slots}
        others = [source for _, source in passed if source not in states_of]
        self._step(op, others, (), passed)

    def _body(self, op: Op, values: _Values, states: list[_Slots]) -> list[_Slots]:
        """Add the blocks of a loop; return what the results take over, its state in most loops."""
        leaving = states
        kept: list[int] = []  # what the body hands on as it is
        for number, block in enumerate(op.blocks):
            given = leaving if op.name == "scf.while" else states
            for value in block.arguments:
                values[value.number] = ()
            arguments = block.arguments[len(block.arguments) - len(given) :]
            for value, slots in zip(arguments, given, strict=True):
                values[value.number] = slots
            ends = self._block(block, values)
            if block.ops[-1].name == "scf.condition":
                leaving = ends[1:]
            elif number == len(op.blocks) - 1:
                pairs = [(end[0], s[0]) for end, s in zip(ends, states, strict=False) if end and s]
                kept += [end for end, state in pairs if end == state]
                for end, state in pairs:
                    if end != state:
                        self._flat.prefer.setdefault(end, state)
        self._step(op, kept, ())
        return leaving


def _carried(op: Op) -> tuple[Value, ...]:
    """The operands of a loop that its first iteration takes over."""
    if op.name == "scf.for":
        return op.operands[3:]
    if op.name == "scf.forall":
        return op.operands[len(op.operands) - len(op.results) :]
    return op.operands


def destinations(op: Op) -> tuple[int, ...]:
    """The numbers of the operands that the op's results overwrite."""
    if op.name.startswith("linalg.") and op.results:
        count = len(op.results)
        return tuple(range(len(op.operands) - count, len(op.operands)))
    return _DESTINATIONS.get(op.name, ())


_DESTINATIONS = {
    "bufferization.materialize_in_destination": (1,),
    "shard.update_halo": (0,),
    "stablehlo.dynamic_update_slice": (0,),
    "tensor.insert": (1,),
    "tensor.insert_slice": (1,),
    "tensor.parallel_insert_slice": (1,),
}
