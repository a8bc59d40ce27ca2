"""Choose the stage of each op of one microbatch's program.

The forward pass is divided in its order, until the last argument is used for the first time, so
that stages have about as many floating-point operations of products, and few bytes cross. An
argument is on the stage that uses it first. What depends on no value of the last stage is of the
forward pass, too, on the last stage that it reads from.

The other ops are the backward pass, which visits the stages in reverse. Each is where its operands
are, to move as few bytes as possible, so the backward pass of a layer is where its weights are.

Stacks are the tensors that hold the weights of all layers, or their gradients, one layer a row.

    %w: tensor<4x8x8xf32>                                   the weights of four layers,
    %1 = stablehlo.slice %w [1:2, 0:8, 0:8]                 of which one op takes those of a layer
    %9 = stablehlo.dynamic_update_slice %8, %g, %c1, ...    the gradients of four layers, into
                                                            which one op puts those of a layer

They are on no stage: their rows are divided among all stages. A stage takes its layers, and puts in
their gradients, without moving anything if they are in its own rows.

With several chunks a stage, the program is divided into as many parts as there are chunks of all
stages, as if each were a stage of its own. Then part number p of S stages is on stage p modulo S.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, product
from math import prod

from shard_dialect.ir.bindings import ir
from shard_dialect.ir.mesh.attributes import SHARDINGS
from shard_dialect.ir.numbered_function import Op
from shard_dialect.ir.reading.constants import constant_integer
from shard_dialect.model.reached import reached
from shard_dialect.ops.stablehlo.attribute_reading import slice_bounds
from shard_dialect.passes.pipelining.annotations_on_stages import MARK
from shard_dialect.passes.pipelining.divide_loops import flops_in
from shard_dialect.passes.pipelining.split_batch import MicrobatchProgram
from shard_dialect.passes.pipelining.timetable import Kind, Pass
from shard_dialect.passes.pipelining.unroll_loops import UPDATE, written

_STABLEHLO, _TENSOR, _INSERT = "stablehlo.slice", "tensor.extract_slice", "tensor.insert_slice"
SLICES = (_STABLEHLO, _TENSOR)


@dataclass(frozen=True, slots=True)
class Rows:
    """The rows that an op takes of a tensor, or puts into one, from `begin` on.

    The part that is put is `operand` of the op.
    """

    begin: int
    size: int
    operand: int = 0

    @property
    def into(self) -> int:
        """The operand that a part is put into."""
        return 1 - self.operand


@dataclass
class LayerStacks:
    """The stacks of layers in one microbatch's program."""

    taken: set[int] = field(default_factory=set)
    """The stacks among the arguments and what is made of these once: for a microbatch, the program
    only takes rows of them, and takes each."""
    makers: set[int] = field(default_factory=set)
    """The ids of the ops that make these of arguments."""
    takes: dict[int, Rows] = field(default_factory=dict)
    """The rows that ops take of these, by the op's id."""
    puts: dict[int, Rows] = field(default_factory=dict)
    """The rows that ops put into a stack, by the op's id."""
    last: set[int] = field(default_factory=set)
    """The values that are stacks to which all rows have been put."""

    @classmethod
    def find(cls, program: MicrobatchProgram) -> LayerStacks:
        """The stacks among the arguments, and those that are made after all microbatches."""
        stacks = cls()
        early = [*program.once, *program.ops]
        sliced = {*program.batched, *(source for source, _ in program.slices.values())}
        users: dict[int, list[Op]] = {}
        for op in early:
            for value in program.reads[id(op)]:
                users.setdefault(value, []).append(op)
        made = [value for op in program.once for value in op.results]
        for value in (*program.function.arguments, *made):
            rows = {id(op): _taken(op, value) for op in users.get(value, ())}
            known = {key: each for key, each in rows.items() if each is not None}
            if value not in sliced and len(known) == len(rows) and _are_all(known, program, value):
                stacks.taken.add(value)
                stacks.takes |= known
        stacks._find_makers(program)
        stacks._find_puts(program)
        return stacks

    def _find_makers(self, program: MicrobatchProgram) -> None:
        """A stack that is made of no argument, or of rows of one, is none: any stage makes it."""
        maker = {value: op for op in program.once for value in op.results}
        tensors = {v for v in program.function.arguments if program.function.values[v].is_tensor}

        def before(value: int) -> Sequence[int]:
            return program.reads[id(maker[value])] if value in maker else ()

        for stack in list(self.taken):
            behind = list(reached([stack], before))
            makers = {id(maker[value]) for value in behind if value in maker}
            if tensors.isdisjoint(behind) or not makers.isdisjoint(self.takes):
                self.taken.discard(stack)
            else:
                self.makers |= makers
        taken = {id(op): op.operands[0] for op in program.once if id(op) in self.takes}
        self.takes = {key: each for key, each in self.takes.items() if taken[key] in self.taken}

    def _find_puts(self, program: MicrobatchProgram) -> None:
        chains: dict[int, list[tuple[Op, Rows]]] = {}
        """By the last value of each chain of ops that put rows into one tensor, these ops."""
        for op in program.after:
            rows = _put(op)
            if rows is not None:
                before = chains.pop(op.operands[rows.into], ())
                chains[op.results[0]] = [*before, (op, rows)]
        for value, chain in chains.items():
            if _are_all({id(op): rows for op, rows in chain}, program, value):
                self.puts |= {id(op): rows for op, rows in chain}
                self.last.add(value)


def _are_all(rows: Mapping[int, Rows], program: MicrobatchProgram, value: int) -> bool:
    """Whether several ops have rows, and together all those of the tensor `value`."""
    shape = program.function.values[value].shape
    covered = {at for each in rows.values() for at in range(each.begin, each.begin + each.size)}
    return (
        len({each.begin for each in rows.values()}) > 1
        and shape is not None
        and len(covered) == shape[0]
    )


def _taken(op: Op, value: int) -> Rows | None:
    """The rows of `value` that an op takes; `None` if it does something else."""
    handle = op.handle
    if op.name not in SLICES or op.operands[0] != value or SHARDINGS in handle.attributes:
        return None
    whole = handle.operands[0].type
    if op.name == _STABLEHLO:
        begins, ends, strides = slice_bounds(handle)
        sizes = [end - begin for begin, end in zip(begins, ends, strict=True)]
        return _rows(begins, sizes, strides, whole)
    return _of_slice(handle, list(handle.operands)[1:], whole)


def _put(op: Op) -> Rows | None:
    """The rows that an op puts into a tensor; `None` if it does something else."""
    handle = op.handle
    if MARK in handle.attributes:  # it is split as it says
        return None
    if op.name == UPDATE:
        found = written(handle.results[0])
        if found is None:
            return None
        update, begins = found
        rows = _rows(begins, list(update.type.shape), [1] * len(begins), handle.results[0].type)
        return None if rows is None else replace(rows, operand=1)
    if op.name == _INSERT and SHARDINGS not in handle.attributes:
        return _of_slice(handle, list(handle.operands)[2:], handle.results[0].type)
    return None


def _of_slice(
    handle: ir.Operation, operands: Sequence[ir.Value], whole: ir.RankedTensorType
) -> Rows | None:
    """The rows of a slice of `tensor`, whose dynamic offsets, sizes and strides are `operands`."""
    dynamic, rest = ir.ShapedType.get_dynamic_size(), iter(map(constant_integer, operands))
    lists = [
        [next(rest) if each == dynamic else each for each in handle.attributes[key]]
        for key in ("static_offsets", "static_sizes", "static_strides")
    ]
    begins, sizes, strides = ([each for each in numbers if each is not None] for numbers in lists)
    if any(None in numbers for numbers in lists):
        return None
    return _rows(begins, sizes, strides, whole)


def _rows(
    begins: Sequence[int], sizes: Sequence[int], strides: Sequence[int], whole: ir.RankedTensorType
) -> Rows | None:
    """The rows of a box that has all of the other dimensions."""
    if not whole.has_static_shape or not whole.rank or any(each != 1 for each in strides):
        return None
    is_whole = list(sizes[1:]) == list(whole.shape)[1:] and not any(begins[1:])
    return Rows(begins[0], sizes[0]) if is_whole and sizes[0] < whole.shape[0] else None


_SLACK = 0.1
"""The part of its work that a stage may have more or less, so that fewer bytes cross."""


@dataclass
class StageChoice:
    """The stages of the ops and values of one microbatch's program, and the passes of each stage.

    A value that does not depend on the batch is on the stage of its first user, or on the last
    stage that it reads from. A value that depends on no tensor argument is on all. With `weights`,
    the ops of the backward pass for which no other part waits are passes of their own.
    """

    program: MicrobatchProgram
    stacks: LayerStacks
    stages: int
    chunks: int = 1
    weights: bool = False
    of_value: dict[int, int] = field(default_factory=dict)
    of_op: dict[int, int] = field(default_factory=dict)
    """By the op's id."""
    needed: dict[int, set[int]] = field(default_factory=dict)
    """The other stages that use a value."""
    forward: list[Op] = field(default_factory=list)
    """The ops of the forward pass, in order."""
    backward: list[Op] = field(default_factory=list)
    passes: dict[Pass, list[Op]] = field(default_factory=dict)
    """The ops of each pass that has any, in order."""

    @property
    def all(self) -> int:
        """The number that stands for all stages."""
        return self.stages

    @property
    def _parts(self) -> int:
        """The number of parts, and the number that stands for all."""
        return self.stages * self.chunks

    def __post_init__(self) -> None:
        self._divide()
        self.passes |= self._by_pass()
        for numbers in (self.of_op, self.of_value):
            numbers |= {each: self._stage(part) for each, part in numbers.items()}
        for value, parts in self.needed.items():
            self.needed[value] = set(map(self._stage, parts)) - {self.of_value[value]}

    def _stage(self, part: int) -> int:
        return self.all if part == self._parts else part % self.stages

    def _divide(self) -> None:
        """Choose the parts, which `of_op`, `of_value` and `needed` have until all are chosen."""
        self._made: set[int] = set()
        """The values that the backward pass has made so far."""
        self._maker = {value: op for op in self.program.once for value in op.results}
        values = self.program.function.values
        tensors = [value for value in self.program.function.arguments if values[value].is_tensor]
        self._roots = {value: {value} for value in tensors}
        self._find_roots()
        self._put_stacks()
        count = self._find_forward()
        self._choose_forward(self.program.ops[:count])
        self.forward += self.program.ops[:count]
        last = {value for op in self.forward for value in op.results if self._is_last(op)}
        for op in self.program.ops[count:]:
            if last.isdisjoint(self._read(op)):
                self._put(op, self._latest(op))
                self.forward.append(op)
            else:
                self._place(op)
                self.backward.append(op)
                self._made.update(op.results)
                last.update(op.results)
        if all(map(self._is_last, self.backward)):  # there is no backward pass
            self.forward, self.backward = list(self.program.ops), []
        for total, (added, _) in self.program.totals.items():
            self.of_value[total] = self.of_value[added]
        for op in self.program.after:
            self._place_after(op)
        for op in (*self.program.once, *self.program.after):
            if id(op) not in self.of_op and any(map(self._roots.get, self._read(op))):
                self._put(op, self._latest(op))
        for value in tensors:
            self._use(value, self.of_value.get(value, 0))

    def _put_stacks(self) -> None:
        """Put the stacks, and what makes them, on all stages."""
        arguments = self.stacks.taken.intersection(self.program.function.arguments)
        self.of_value |= dict.fromkeys(arguments, self._parts)
        for op in self.program.once:
            if id(op) in self.stacks.makers:
                self._put(op, self._parts)

    def _by_pass(self) -> dict[Pass, list[Op]]:
        late = self._for_no_other() if self.weights else set()
        kinds: dict[Kind, list[Op]] = {
            "forward": self.forward,
            "backward": [op for op in self.backward if id(op) not in late],
            "weights": [op for op in self.backward if id(op) in late],
        }
        passes: dict[Pass, list[Op]] = {}
        for kind, ops in kinds.items():
            for stage, chunk in product(range(self.stages), range(self.chunks)):
                part = chunk * self.stages + stage
                passes[Pass(stage, kind, chunk)] = [op for op in ops if self.of_op[id(op)] == part]
        return {each: ops for each, ops in passes.items() if ops}

    def _for_no_other(self) -> set[int]:
        """The ids of the ops of the backward pass from which no other part gets anything."""
        late: set[int] = set()
        waited_for: set[int] = set()
        for op in reversed(self.backward):
            stage = self.of_op[id(op)]
            is_waited_for = not waited_for.isdisjoint(op.results)
            if not is_waited_for:
                late.add(id(op))
            for value in self._read(op):
                if is_waited_for or self.of_value.get(value, stage) != stage:
                    waited_for.add(value)
        return late

    def _find_roots(self) -> None:
        """Find the arguments that each value depends on which is made once."""
        for op in self.program.once:
            roots = set().union(*(self._roots.get(value, set()) for value in self._read(op)))
            if roots and op.name in SLICES:  # the weights of one layer, of those of all
                roots = {op.results[0]}
            self._roots |= dict.fromkeys(op.results, roots)

    def _read(self, op: Op) -> list[int]:
        """The values that an op reads, or reads slices of."""
        slices = self.program.slices
        read = self.program.reads[id(op)]
        return [slices[value][0] if value in slices else value for value in read]

    def _latest(self, op: Op) -> int:
        """The last stage that an op reads from."""
        return max((self.of_value.get(value, 0) for value in self._read(op)), default=0)

    def _is_last(self, op: Op) -> bool:
        return self.of_op[id(op)] == self._parts - 1

    def _find_forward(self) -> int:
        """The number of ops until the last argument is used for the first time."""
        seen: set[int] = set()
        last = 0
        for number, op in enumerate(self.program.ops, 1):
            roots = set().union(*(self._roots.get(value, set()) for value in self._read(op)))
            if roots - seen:
                last = number
            seen |= roots
        return last

    def _choose_forward(self, ops: Sequence[Op]) -> None:
        cuts = self._cuts(ops)
        for number, op in enumerate(ops):
            self._put(op, sum(cut <= number for cut in cuts))

    def _cuts(self, ops: Sequence[Op]) -> list[int]:
        """Where each stage but the first begins: near its share of work, where little crosses."""
        done = [0.0, *accumulate(flops_in(op.handle) for op in ops)]
        crossing = self._bytes_crossing(ops)
        share, cuts = done[-1] / self._parts, [0]
        for stage in range(1, self._parts):
            off = [abs(each - share * stage) for each in done]
            places = range(cuts[-1], len(done))
            nearest = min(off[at] for at in places)
            near = [at for at in places if off[at] <= max(nearest, _SLACK * share)]
            cuts.append(min(near, key=lambda at: (crossing[at], off[at], -at)))
        return cuts[1:]

    def _bytes_crossing(self, ops: Sequence[Op]) -> list[int]:
        """By place, before each op and after the last: the bytes made before and read after it."""
        made = {value: at for at, op in enumerate(ops) for value in op.results}
        last = {value: at for at, op in enumerate(ops) for value in self._read(op) if value in made}
        changes = [0] * (len(ops) + 1)
        for value, at in last.items():
            changes[made[value] + 1] += self._bytes_of(value)
            changes[at + 1] -= self._bytes_of(value)
        return list(accumulate(changes))

    def _place(self, op: Op) -> None:
        """Put an op on the stage of one of its operands: the first to which fewest bytes move.

        A stage that the backward pass has left does not come again.
        """
        stages = self._homes(op)
        made = [self.of_value[value] for value in self._read(op) if value in self._made]
        latest = min(made, default=self._parts - 1)
        stages = [stage for stage in stages if stage <= latest] or [latest]
        self._put(op, min(stages, key=lambda stage: self._bytes_to(op, stage)))

    def _homes(self, op: Op) -> list[int]:
        """The stages of the values that an op reads."""
        homes = {self._home(value) for value in self._read(op)}
        return sorted(stage for stage in homes if stage is not None)

    def _home(self, value: int) -> int | None:
        """The stage of a value; of one that is made once, and not placed yet, that of its operands.

        `None` if it can be on any stage.
        """

        def before(value: int) -> Iterable[int]:
            maker = None if value in self.of_value else self._maker.get(value)
            return () if maker is None or self._takes(maker) else self._read(maker)

        found = reached([value], before)
        return max((self.of_value[each] for each in found if each in self.of_value), default=None)

    def _takes(self, op: Op) -> bool:
        """Whether an op takes rows of a stack."""
        return id(op) in self.stacks.takes

    def _place_after(self, op: Op) -> None:
        """Put an op on one of the stages of its operands, all stages too, to which least moves.

        One whose operands are on no stage yet is put where it is used first.
        """
        if id(op) in self.stacks.puts:
            self._put(op, self._parts)
            return
        stages = self._homes(op)
        if stages:
            self._put(op, min(stages, key=lambda stage: self._bytes_to(op, stage)))
        else:
            self._maker |= dict.fromkeys(op.results, op)

    def _bytes_to(self, op: Op, stage: int) -> int:
        total = 0
        for value in set(self._read(op)):
            at = self._home(value)
            if at not in (None, stage) and stage not in self.needed.get(value, ()):
                total += self._bytes_of(value)
        return total

    def _bytes_of(self, value: int) -> int:
        kind = self.program.function.values[value].kind
        return prod(kind.shape or ()) * kind.itemsize

    def _stage_for(self, maker: Op, stage: int) -> int:
        """Where to make a value that `stage` needs: there, or where it is made of less to send."""
        made = sum(map(self._bytes_of, maker.results))
        others = {self.of_value[v] for v in self._read(maker) if v in self.of_value} - {stage}

        def bytes_sent(at: int) -> int:
            return self._bytes_to(maker, at) + (made if at != stage else 0)

        return min((stage, *sorted(others)), key=bytes_sent)

    def _put(self, op: Op, stage: int) -> None:
        self.of_op[id(op)] = stage
        for value in self._read(op):
            if not self._is_part(op, value):
                self._use(value, stage)
        self.of_value |= dict.fromkeys(op.results, stage)

    def _is_part(self, op: Op, value: int) -> bool:
        """Whether an op takes rows of a stack `value`, or puts `value` into one: rows move then."""
        rows = self.stacks.puts.get(id(op))
        is_put = rows is not None and value == op.operands[rows.operand]
        return is_put or self._takes(op)

    def _use(self, value: int, stage: int) -> None:
        """Note that a stage uses a value; one that is on no stage yet is put there."""
        if not self._roots.get(value, {value}):
            return  # a constant, which all stages have
        if value not in self.of_value:
            self.of_value[value] = stage
            maker = self._maker.get(value)
            if maker is not None and id(maker) not in self.of_op:
                self._put(maker, stage if self._takes(maker) else self._stage_for(maker, stage))
        if self.of_value[value] != stage:
            self.needed.setdefault(value, set()).add(stage)
