"""The memory of one device: the live values while each op runs, in the order of the program.

    %x : 4 KiB argument                          arguments 4 KiB, all the time
    %a = stablehlo.tanh %x                       %a is live
    %b = stablehlo.dot_general %a, %a            %a and %b are live: the peak
    return %b                                    %b is a result

A value is stored from the op that makes it to the last op that reads it. Views (a reshape) and ops
that write into an operand (a `linalg` op its init, an update of a slice) need no memory of their
own where the operand is not read later. The state of a loop is stored once. Arguments belong to the
caller, who keeps them; a donated one gives its memory to a result. Constants of one repeated
element take none.

`fused_ops` are the ops that a compiler fuses into their readers, so that their results are not
stored:

    %a = stablehlo.exponential %x          fused, as its one reader is elementwise
    %b = stablehlo.add %a, %x              stored, as a product reads it

The rules are XLA's, where it compiles for CPUs: an op that moves or computes elements is fused if
only such ops and reductions read it, and a costly one only if there is one reader.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, field
from itertools import accumulate
from typing import Literal

from shard_dialect.analysis.costs.flat_program import FlatProgram, Slot, Step, flatten
from shard_dialect.analysis.costs.local_ops import Block, Function, LocalProgram, Op, Value
from shard_dialect.ops.op_table import traits_of
from shard_dialect.ops.operations import TensorInfo
from shard_dialect.ops.scalar_functions import Trait

Kind = Literal["argument", "result", "temporary", "constant"]


@dataclass(frozen=True, slots=True)
class Live:
    """A value that is stored."""

    name: str
    """As in the printed function: `%arg0`, `%3`."""
    type: str
    bytes: int
    kind: Kind
    location: str | None


@dataclass(frozen=True, slots=True)
class Moment:
    """The live bytes while one op runs, of all kinds and of each."""

    op: str
    location: str | None
    bytes: int
    temporaries: int
    arguments: int = 0
    results: int = 0
    constants: int = 0
    shown: int | None = None
    """The number of the op of the graph from which it comes (`analysis.layers`)."""

    def as_json(self) -> dict[str, object]:
        """The fields of the JSON report."""
        fields = asdict(self)
        del fields["shown"]
        return fields


@dataclass(frozen=True, slots=True)
class Memory:
    """The memory of one device, in bytes."""

    peak: int
    """Of arguments, results, temporaries and constants together."""
    arguments: int
    results: int
    temporaries: int
    """The most that temporaries take at one time."""
    constants: int
    donated: int
    """The bytes of results that take the memory of donated arguments; `peak` has them once."""
    live_at_peak: tuple[Live, ...]
    """The largest first."""
    timeline: tuple[Moment, ...]
    """One entry for each op, in order; a loop's body is there once."""

    def as_json(self) -> dict[str, object]:
        """The fields of the JSON report."""
        return asdict(self) | {"timeline": [each.as_json() for each in self.timeline]}


@dataclass(slots=True)
class _Buffer:
    kind: Kind
    bytes: int
    first: int
    last: int
    slots: list[Slot] = field(default_factory=list)
    is_in_pieces: bool = False
    """Whether it is several buffers, which do not fit into another one at once."""


InPlace = Callable[[Op], bool]
"""Whether an op may write its result over any operand of equal size."""
Scratch = Callable[[Op], int]
"""The bytes that an op needs while it runs, besides its operands and results."""


def memory_of(program: LocalProgram) -> Memory:
    """The memory that the program needs if each op runs by itself, in the order of the program.

    Of devices at different positions, such as stages, that of those that need most.
    """
    found = (memory_of_steps(flatten(each), each.entry) for each in program.by_position())
    return max(found, key=lambda memory: memory.peak)


def memory_of_steps(
    flat: FlatProgram,
    entry: Function,
    in_place: InPlace = lambda op: False,
    scratch: Scratch = lambda op: 0,
    *,
    results_first: bool = False,
    in_pieces: Callable[[Op], bool] = lambda op: False,
) -> Memory:
    """The same for a list of steps; `in_place` tells which ops may overwrite their operands.

    With `results_first`, the memory of results is there from the beginning, and temporaries that
    are not needed any more when the result is made take it; but not the results of ops that make
    them `in_pieces`.
    """
    planning = _Planning(flat, entry, in_place)
    buffers = planning.run()
    for slot in (slot for step in flat.steps if in_pieces(step.op) for slot in step.writes):
        planning.buffer_of(slot).is_in_pieces = True
    for each in _scratch(flat, scratch):
        each.is_in_pieces = in_pieces(flat.steps[each.first].op)
        buffers.append(each)
    if results_first:
        buffers = _within_results(buffers)
    return _summary(flat, buffers)


def _within_results(buffers: list[_Buffer]) -> list[_Buffer]:
    """Put temporaries, the largest first, into the memory of results that they do not meet."""
    taken = {id(each): [each] for each in buffers if each.kind == "result"}
    results = [each for each in buffers if each.kind == "result"]
    for buffer in sorted(buffers, key=lambda each: -each.bytes):
        if buffer.kind != "temporary" or buffer.is_in_pieces:
            continue
        for result in results:
            others = taken[id(result)]
            if result.bytes >= buffer.bytes and not any(_meet(buffer, each) for each in others):
                others.append(buffer)
                break
    for each in results:
        hosted = {id(buffer) for buffer in taken[id(each)][1:]}
        buffers = [buffer for buffer in buffers if id(buffer) not in hosted]
        each.first = 0
    return buffers


def _meet(one: _Buffer, other: _Buffer) -> bool:
    return one.first <= other.last and other.first <= one.last


def _scratch(flat: FlatProgram, scratch: Scratch) -> Iterable[_Buffer]:
    for now, step in enumerate(flat.steps):
        needed = scratch(step.op)
        if needed:
            value = Value(-1, f"for {step.op.name}", TensorInfo((needed,), "i8", 1))
            slot = Slot(-1, value, step.op.location, now, now)
            yield _Buffer("temporary", needed, now, now, [slot])


class _Planning:
    def __init__(self, flat: FlatProgram, entry: Function, in_place: InPlace) -> None:
        self._flat = flat
        self._entry = entry
        self._in_place = in_place
        self._buffers: dict[int, _Buffer] = {}
        self._pinned: set[int] = set()  # buffers, by id, that are not overwritten

    def run(self) -> list[_Buffer]:
        self._arguments()
        for now, step in enumerate(self._flat.steps):
            for slot, source in step.passed:
                self._take(slot, source, now) or self._new(slot)
            for slot in step.writes:
                self._place(slot, step, now)
        copies = self._results()
        return [*{id(each): each for each in self._buffers.values()}.values(), *copies]

    def buffer_of(self, slot: int) -> _Buffer:
        """Where a slot is stored."""
        return self._buffers[slot]

    def _arguments(self) -> None:
        """Donated arguments may be overwritten; a result prefers the one that it is to take."""
        tensors = [info for info in self._entry.arguments if info.tensor]
        free = []
        for slot, info in zip(self._flat.arguments, tensors, strict=True):
            buffer = self._new(slot, "argument")
            buffer.last = len(self._flat.steps)
            if not info.donated:
                self._pinned.add(id(buffer))
            elif info.aliases is not None:
                result = self._flat.results[info.aliases]
                if result is not None:
                    self._flat.prefer.setdefault(result, slot)
            else:
                free.append(slot)
        for result in self._flat.results:
            fits = [each for each in free if result is not None and self._alike(each, result)]
            if fits and result is not None and result not in self._flat.prefer:
                self._flat.prefer[result] = fits[0]
                free.remove(fits[0])

    def _alike(self, one: int, other: int) -> bool:
        slots = self._flat.slots
        return slots[one].value.bytes == slots[other].value.bytes

    def _new(self, slot: int, kind: Kind = "temporary") -> _Buffer:
        found = self._flat.slots[slot]
        buffer = _Buffer(kind, found.value.bytes, found.first, found.last, [found])
        if found.is_constant:
            buffer.kind = "constant"
            self._pinned.add(id(buffer))
        self._buffers[slot] = buffer
        return buffer

    def _place(self, slot: int, step: Step, now: int) -> None:
        """In the memory that it should take, or that the op writes to, or in new memory."""
        same = self._flat.same.get(slot)
        if same is not None and self._take(slot, same, len(self._flat.steps)):
            return
        preferred = self._flat.prefer.get(slot)
        if preferred is not None:
            free_at = now if self._may_overwrite(step, preferred) else now - 1
            if self._take(slot, preferred, free_at):
                return
        for source in step.reads:
            if self._may_overwrite(step, source) and self._take(slot, source, now):
                return
        self._new(slot)

    def _may_overwrite(self, step: Step, source: int) -> bool:
        return source in step.overwritten or (source in step.reads and self._in_place(step.op))

    def _take(self, slot: int, source: int, now: int) -> bool:
        """Put the slot into the memory of `source`, if all that is there was read by then."""
        buffer = self._buffers.get(source)
        if buffer is None or id(buffer) in self._pinned or not self._alike(slot, source):
            return False
        if any(each.last > now for each in buffer.slots):
            return False
        found = self._flat.slots[slot]
        buffer.slots.append(found)
        buffer.last = max(buffer.last, found.last)
        self._buffers[slot] = buffer
        return True

    def _results(self) -> list[_Buffer]:
        """Mark the buffers of results; those that hold anything else, too, are copied."""
        end = len(self._flat.steps)
        taken: set[int] = set()
        copies = []
        donated = set(self._flat.arguments)
        for slot in self._flat.results:
            if slot is None:
                continue
            buffer = self._buffers[slot]
            if id(buffer) in taken or id(buffer) in self._pinned:
                found = self._flat.slots[slot]
                copies.append(_Buffer("result", buffer.bytes, end - 1, end, [found]))
                continue
            taken.add(id(buffer))
            buffer.last = end
            if buffer.kind == "temporary" and self._flat.prefer.get(slot) not in donated:
                buffer.kind = "result"  # else it is copied to the donated argument
        return copies


def _summary(flat: FlatProgram, buffers: Iterable[_Buffer]) -> Memory:
    buffers = list(buffers)
    count = len(flat.steps)
    totals = _sums(buffers, count)
    temporaries, arguments, results_now, constants = (
        _sums([each for each in buffers if each.kind == kind], count)
        for kind in ("temporary", "argument", "result", "constant")
    )
    at = max(range(count), key=totals.__getitem__)
    live = [each for each in buffers if _first(each) <= at <= _last(each, count)]
    steps = flat.steps
    results = [flat.slots[slot].value.bytes for slot in flat.results if slot is not None]
    made = sum(each.bytes for each in buffers if each.kind == "result")
    return Memory(
        totals[at],
        sum(each.bytes for each in buffers if each.kind == "argument"),
        sum(results),
        max(temporaries, default=0),
        sum(each.bytes for each in buffers if each.kind == "constant"),
        sum(results) - made,
        tuple(sorted((_live(each, at) for each in live), key=lambda each: -each.bytes)),
        tuple(
            Moment(
                step.op.name,
                step.op.location,
                totals[number],
                temporaries[number],
                arguments[number],
                results_now[number],
                constants[number],
                step.op.shown,
            )
            for number, step in enumerate(steps)
        ),
    )


def _first(buffer: _Buffer) -> int:
    """Arguments and constants are there from the beginning."""
    return buffer.first if buffer.kind in ("temporary", "result") else 0


def _last(buffer: _Buffer, count: int) -> int:
    return buffer.last if buffer.kind == "temporary" else count


def _sums(buffers: Iterable[_Buffer], count: int) -> list[int]:
    return bytes_held(((_first(each), _last(each, count), each.bytes) for each in buffers), count)


def bytes_held(spans: Iterable[tuple[int, int, int]], count: int) -> list[int]:
    """The bytes while each of `count` ops runs, of which each span has some from op to op."""
    changes = [0] * (count + 2)
    for first, last, size in spans:
        changes[first] += size
        changes[last + 1] -= size
    return list(accumulate(changes[:count]))


def _live(buffer: _Buffer, at: int) -> Live:
    """The last value that was put into the buffer by then."""
    slot = max(
        (each for each in buffer.slots if each.first <= at),
        key=lambda each: each.first,
        default=buffer.slots[0],
    )
    value = slot.value
    return Live(value.name, str(value.tensor), buffer.bytes, buffer.kind, slot.location)


_MOVES = frozenset(
    f"stablehlo.{name}"
    for name in "broadcast broadcast_in_dim concatenate dynamic_slice gather iota pad reverse "
    "slice transpose".split()
)
_FUSED_INTO = _MOVES | {"stablehlo.dynamic_update_slice", "stablehlo.reduce"}
_VIEW = "stablehlo.reshape"


def is_elementwise(op: Op) -> bool:
    """Whether each element of the results comes of one element of each operand."""
    return Trait.ELEMENTWISE in traits_of(op.name) and not op.name.startswith(_ALONE)


_ALONE = ("linalg.", "stablehlo.constant", "tosa.")
"""Prefixes of ops that are computed by themselves: XLA has constants in memory, say."""


def _is_costly(op: Op) -> bool:
    """Whether XLA does not compute the op once for each reader."""
    traits = traits_of(op.name)
    return Trait.ELEMENTARY in traits or (Trait.STEEP in traits and Trait.EXACT not in traits)


def fused_ops(blocks: tuple[Block, ...], *, keeps_rows: bool = False) -> frozenset[int]:
    """The ids of the ops of blocks, and of all inside and called, whose results are not stored.

    With `keeps_rows`, also a costly op of several such readers is fused: as kernels of GPUs for a
    softmax or a norm do, which keep the row that is summed until it is divided.
    """
    return frozenset(_fused(blocks, keeps_rows))


def _fused(blocks: tuple[Block, ...], keeps_rows: bool) -> Iterator[int]:
    for block in blocks:
        readers = _readers(block)
        for op in block.ops:
            yield from _fused(op.blocks, keeps_rows)
            if op.callee:
                yield from _fused(op.callee.blocks, keeps_rows)
            if not is_elementwise(op) and op.name not in _MOVES:
                continue
            found = list(_behind_views(op.results[0], readers))
            if not found or not all(
                is_elementwise(each) or each.name in _FUSED_INTO for each in found
            ):
                continue
            if keeps_rows or len(found) == 1 or not _is_costly(op):
                yield id(op)


def _readers(block: Block) -> dict[int, list[Op]]:
    """The ops of the block that read each value, themselves or in their regions."""
    readers: dict[int, list[Op]] = {}

    def add(reader: Op, op: Op) -> None:
        for value in dict.fromkeys(op.reads):
            readers.setdefault(value.number, []).append(reader)
        for inner in op.blocks:
            for each in inner.ops:
                add(reader, each)

    for op in block.ops:
        add(op, op)
    return readers


def _behind_views(value: Value, readers: dict[int, list[Op]]) -> Iterator[Op]:
    for op in readers.get(value.number, ()):
        if op.name == _VIEW:
            yield from _behind_views(op.results[0], readers)
        else:
            yield op
