"""Write a pipeline as loops over ticks, in each of which every stage works on its own microbatch.

    %0:2 = stablehlo.while(%t = 0, %h = zeros, %y = zeros)        h and the results of two stages,
      %x = a microbatch's rows of %arg0, those of number %t       of four microbatches each
      %a = stablehlo.dot_general %x, %w                           on @stage0: microbatch %t
      %b = stablehlo.dot_general %h, %v                           on @stage1: microbatch %t - 1
      %p = "mesh.collective_permute"(%a) {cluster = @stage1}
      %z = %y, with %b in the place of microbatch %t - 1, if there is one
      stablehlo.return %t + 1, %p, %z

There is one loop for each phase of the timetable, of the ops of the passes that work in it. So the
text has an op as often as there are such phases, whatever the number of microbatches.

What a pass makes and another one reads in a later tick is carried, on the stage of its reader, in a
slot for each microbatch that waits there. Totals and results are carried, too. In ticks in which a
pass has no microbatch it computes all the same, of anything, and nothing of it is kept: its stage
would wait for the others at the end of the tick.

Where stages have several chunks, the passes of a stage are branches of a `case` on the tick:

      %c = those of chunk 0, 0, 1, 1 of two stages, with %t
      %a = stablehlo.case(%c) { dot_general %x, %w0 }, { dot_general %h, %w1 }
      %p = "mesh.collective_permute"(%a) {cluster = @stage1}

What leaves the branches leaves them by as few results as there are values of a type in one of them,
and is passed on once. Another `case` puts it into the slots of the pass whose turn it was.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from shard_dialect.errors import ShardError
from shard_dialect.ir.bindings import ir
from shard_dialect.ir.building import build
from shard_dialect.ir.building import stablehlo as hlo
from shard_dialect.ir.building.build import copy_onto
from shard_dialect.ir.diagnostics import located
from shard_dialect.ir.mesh.attributes import i64_array
from shard_dialect.ir.mesh.mesh_dialect import TRANSFER
from shard_dialect.ir.numbered_function import Function, Op, replace_captured
from shard_dialect.ir.walk import operations
from shard_dialect.model import Reduction
from shard_dialect.passes.pipelining.annotations_on_stages import MARK, AnnotationsOnStages
from shard_dialect.passes.pipelining.batch_types import batch_dim
from shard_dialect.passes.pipelining.choose_stages import Rows, StageChoice
from shard_dialect.passes.pipelining.microbatch_ops import MicrobatchOps
from shard_dialect.passes.pipelining.split_batch import MicrobatchProgram
from shard_dialect.passes.pipelining.timetable import Kind, Pass, Phase, Timetable


@dataclass(frozen=True, slots=True)
class Waiting:
    """Carried: what a pass has made of a value in earlier ticks, on the `stage` that reads it."""

    value: int
    stage: int


@dataclass(frozen=True, slots=True)
class Total:
    """Carried: the sum, say, of a value of the microbatches so far."""

    value: int
    reduction: Reduction
    total: int


@dataclass(frozen=True, slots=True)
class Output:
    """Carried: a result of the function, as far as microbatches have made it.

    Dimension `dim` is the batch; without one, the result is that of microbatch 0.
    """

    value: int
    dim: int | None


Carried = Waiting | Total | Output
Exit = dict[Pass, int]
"""What leaves the branches of a stage's chunks by one result: of each pass, the value."""


@dataclass
class _Tick:
    """What is known in the body of a loop."""

    number: ir.Value
    values: dict[tuple[int, Pass], ir.Value] = field(default_factory=dict)
    """By value and the pass that makes or reads it: the value of the pass's microbatch."""
    microbatches: dict[Pass, ir.Value] = field(default_factory=dict)
    """The number of the microbatch that each pass works on."""
    arrivals: dict[tuple[ir.Value, int], ir.Value] = field(default_factory=dict)
    """By value and stage: what was passed on to that stage."""


@dataclass
class LoopWriter:
    """Writes the loops before `end`, and the ops that run once before and after them."""

    program: MicrobatchProgram
    choice: StageChoice
    annotations: AnnotationsOnStages
    timetable: Timetable
    end: ir.Operation
    ops: MicrobatchOps
    parts: int = 1
    """The parts of the batch, one after the other, of each of which a microbatch has as many rows:
    the devices that share the batch then share every microbatch."""
    made: dict[int, ir.Value] = field(default_factory=dict)
    """By value: what was made once of it, for all microbatches."""
    passed: dict[tuple[int, int], ir.Value] = field(default_factory=dict)
    """By value and stage: the copy of what was made once that was passed on to that stage."""
    state: dict[Carried, ir.Value] = field(default_factory=dict)
    """What is carried, as it is at the insertion point."""

    @property
    def numbered(self) -> Function:
        """The function of one microbatch."""
        return self.program.function

    @property
    def ops_of(self) -> Mapping[Pass, Sequence[Op]]:
        """The ops of each pass."""
        return self.choice.passes

    def __post_init__(self) -> None:
        self.maker = {
            value: each for each, ops in self.ops_of.items() for op in ops for value in op.results
        }
        self.most_age: dict[Waiting, int] = {}
        self.at_once: set[int] = set()
        """The values that another pass of the stage reads in the tick in which they are made."""
        for reader, ops in self.ops_of.items():
            for op in ops:
                with located(op.handle):
                    for value in self.program.reads[id(op)]:
                        self._note_age(value, reader)
        self.exits: dict[tuple[int, Kind], list[Exit]] = {}
        """By stage and kind of passes, where stages have several chunks."""
        self.lanes: dict[Waiting, list[Waiting]] = {}
        """What is carried as one: what all chunks of a stage wait one tick for, by the first."""
        self.lane_of: dict[Waiting, Waiting] = {}
        """By what is carried as part of a lane: the first."""
        if self.timetable.chunks > 1:
            self._find_exits()
        self.slots = self._alike_on_all_stages()

    def _note_age(self, value: int, reader: Pass) -> None:
        maker = self.maker.get(value)
        if maker in (None, reader):
            return
        age, waiting = self.timetable.age(maker, reader), Waiting(value, reader.stage)
        if age < 0 or (age == 0 and maker.stage != reader.stage):
            raise ShardError(
                f"needs a value of stage {maker.stage} on stage {reader.stage} before it is there: "
                "take schedule=gpipe, or fewer stages"
            )
        if age:
            self.most_age[waiting] = max(age, self.most_age.get(waiting, 0))
        else:
            self.at_once.add(value)

    def _find_exits(self) -> None:
        """Let values leave the branches by one result that are of a type, for the same stages."""
        targets: dict[int, list[Waiting]] = {}
        for waiting in self.most_age:
            targets.setdefault(waiting.value, []).append(waiting)
        added = {value for value, _ in self.program.totals.values()}
        left = {*targets, *self.at_once, *added, *self.program.returned}
        exits: dict[tuple[object, ...], Exit] = {}
        counts: Counter[tuple[object, ...]] = Counter()
        for value, maker in self.maker.items():
            if value in left:
                stages = frozenset(each.stage for each in targets.get(value, ()))
                like = (maker.stage, maker.kind, self._type_of(value), stages)
                exits.setdefault((*like, counts[maker, like]), {})[maker] = value
                counts[maker, like] += 1
        for each in exits.values():
            maker, first = next(iter(each.items()))
            self.exits.setdefault((maker.stage, maker.kind), []).append(each)
            for to in targets.get(first, ()):
                lane = [Waiting(value, to.stage) for value in each.values()]
                if all(self.most_age[waiting] == 1 for waiting in lane):
                    self.lanes[lane[0]] = lane
                    self.lane_of |= dict.fromkeys(lane, lane[0])

    def write(self, dims: Sequence[int | None]) -> None:
        """Write all, and let the function return the results.

        `dims` has for each result the dimension that is the batch, or `None`.
        """
        self._pass_on(self.numbered.arguments)
        for op in self.program.once:
            if id(op) in self.choice.of_op:  # others are constants, which all stages have
                self._write_once(op)
        results = [Output(*each) for each in zip(self.program.returned, dims, strict=True)]
        self._begin(results)
        for phase in self.timetable.phases:
            self._loop(phase)
        self.made |= {each.total: v for each, v in self.state.items() if isinstance(each, Total)}
        self._pass_on(list(self.program.totals))
        for op in self.program.after:
            self._write_once(op)
        for number, result in enumerate(results):
            made = self.state.get(result)
            type_ = self.end.operands[number].type
            whole = self._whole(result.value) if made is None else _unboxed(made, type_)
            self.end.operands[number] = whole
        self._erase_old()

    # What runs once.

    def _write_once(self, op: Op) -> None:
        with located(op.handle):
            stage, stacks = self.choice.of_op[id(op)], self.choice.stacks
            if id(op) in stacks.takes:
                taken = self._take(op, stacks.takes[id(op)])
                self.made[op.results[0]] = taken
                if MARK in op.handle.attributes:
                    taken.owner.attributes[MARK] = op.handle.attributes[MARK]
                    self.annotations.annotate(taken.owner, stage)
            elif id(op) in stacks.puts:
                self.made[op.results[0]] = self._put_rows(op, stacks.puts[id(op)])
            else:
                values = [self._shared(value, stage) for value in self.program.reads[id(op)]]
                made = dict(zip(op.results, self._copy(op, values, stage), strict=True))
                for value in stacks.taken & made.keys():
                    made[value] = self.annotations.divided(made[value])
                self.made |= made
        self._pass_on(op.results)

    def _copy(self, op: Op, values: Sequence[ir.Value], stage: int) -> Sequence[ir.Value]:
        """The results of a copy of an op on a stage, which reads these values."""
        read, clone = self.program.reads[id(op)], copy_onto(op.handle, values[: len(op.operands)])
        handles = [self.numbered.values[number].handle for number in read]
        replace_captured(clone, dict(zip(handles, values, strict=True)))
        self.annotations.annotate(clone, stage)
        return list(clone.results)

    def _take(self, op: Op, rows: Rows) -> ir.Value:
        """Pass the rows that an op takes of a stack to the stage of the op."""
        (stack,), (result,) = self.program.reads[id(op)][:1], op.handle.results
        whole = self._shared(stack, self.choice.all)
        box = build.resized(whole.type, [rows.size, *whole.type.shape[1:]])
        taken = self._transfer_rows([whole], rows, box, self.choice.of_op[id(op)])
        return taken if result.type == box else self.ops.of_row(taken)

    def _put_rows(self, op: Op, rows: Rows) -> ir.Value:
        """Put a stage's part of a stack into it."""
        part, into = op.operands[rows.operand], op.operands[rows.into]
        own = self._shared(part, self.choice.of_value.get(part, self.choice.all))
        whole = self._shared(into, self.choice.all)
        if own.type.rank < whole.type.rank:
            own = self.ops.row(own)
        made = self._transfer_rows([own, whole], rows, whole.type, self.choice.all)
        is_last = op.results[0] in self.choice.stacks.last
        return self.annotations.divided(made) if is_last else made

    def _transfer_rows(
        self, values: Sequence[ir.Value], rows: Rows, type_: ir.RankedTensorType, stage: int
    ) -> ir.Value:
        attributes = {
            "cluster": ir.FlatSymbolRefAttr.get(self.annotations.name_of(stage)),
            "offsets": i64_array([rows.begin, *(0,) * (type_.rank - 1)]),
        }
        return build.create_value(TRANSFER, type_, values, attributes)

    def _shared(self, value: int, stage: int) -> ir.Value:
        """A value that all microbatches have in common, on a stage."""
        at = self.choice.of_value.get(value, stage)
        if at == stage:
            if value in self.program.totals and value not in self.made:
                raise ShardError(f"needs a total of stage {at} before all microbatches are done")
            return self.made.get(value, self.numbered.values[value].handle)
        if (value, stage) not in self.passed:
            raise ShardError(f"needs a value of stage {at} on stage {stage} before it is there")
        return self.passed[value, stage]

    def _pass_on(self, values: Sequence[int]) -> None:
        """Pass values that were made once on to the other stages that use them."""
        for value in values:
            stages = () if value in self.program.batched else self.choice.needed.get(value, ())
            for stage in sorted(stages):
                own = self._shared(value, self.choice.of_value[value])
                self.passed[value, stage] = self._transfer(own, stage)

    def _transfer(self, value: ir.Value, stage: int) -> ir.Value:
        if not isinstance(value.type, ir.RankedTensorType):
            return _unboxed(self._transfer(_boxed(value), stage), value.type)
        target = {"cluster": ir.FlatSymbolRefAttr.get(self.annotations.name_of(stage))}
        return build.create_value("mesh.collective_permute", value.type, [value], target)

    def _whole(self, value: int) -> ir.Value:
        """A result that no microbatch makes."""
        source, _ = self.program.slices.get(value, (value, None))
        if source in self.program.batched:
            return self.numbered.values[source].handle
        return self._shared(source, self.choice.of_value.get(source, 0))

    # What the loops carry.

    def _begin(self, results: Sequence[Output]) -> None:
        """Create what the first loop begins with."""
        for waiting in filter(self.slots.get, self.most_age):
            shape = [self.slots[waiting], *self._type_of(waiting.value).shape]
            self._begin_with(waiting, "sum", shape if shape[0] > 1 else shape[1:], waiting.stage)
        for total, (value, step) in self.program.totals.items():
            shape = list(self._type_of(value).shape)
            stage = self.choice.of_value[value]
            self._begin_with(Total(value, step.reduction, total), step.reduction, shape, stage)
        for output in results:
            if output.value in self.maker:
                shape = list(self._type_of(output.value).shape)
                if output.dim is not None:
                    shape[output.dim] *= self.timetable.microbatches
                self._begin_with(output, "sum", shape, self.choice.of_value[output.value])

    def _begin_with(
        self, each: Carried, reduction: Reduction, shape: Sequence[int], stage: int
    ) -> None:
        type_ = build.resized(self._type_of(each.value), shape)
        identity = self.ops.identity(reduction, type_)
        self.state[each] = self.annotations.on_stage(identity, stage)

    def _type_of(self, value: int) -> ir.RankedTensorType:
        """The type of a microbatch's value, as a tensor."""
        type_ = self.numbered.values[value].handle.type
        is_tensor = isinstance(type_, ir.RankedTensorType)
        return type_ if is_tensor else ir.RankedTensorType.get([], type_)

    def _alike_on_all_stages(self) -> dict[Waiting, int]:
        """How many microbatches may wait of each value; all, and a slot for what is none, at most.

        Values of one type have as many slots on each stage, so that its devices have one tensor for
        what they carry of any stage (`share_carried`). Lanes need none.
        """
        least = {
            each: min(self.timetable.waiting(age), self.timetable.microbatches + 1)
            for each, age in self.most_age.items()
            if each not in self.lane_of
        }
        on_stage: dict[tuple[int, ir.Type], list[Waiting]] = {}
        for each in sorted(least, key=lambda each: -least[each]):
            on_stage.setdefault((each.stage, self._type_of(each.value)), []).append(each)
        alike: dict[tuple[ir.Type, int], list[Waiting]] = {}
        for (_, type_), waiting in on_stage.items():
            for rank, each in enumerate(waiting):
                alike.setdefault((type_, rank), []).append(each)
        slots = {
            each: max(least[one] for one in group) for group in alike.values() for each in group
        }
        return slots | dict.fromkeys(self.lanes, 1)

    def _slot(self, waiting: Waiting, each: Pass) -> ir.Value:
        """The slot of the microbatch that a pass works on.

        In a tick a slot is read before it is written again. Where there are slots for all, what is
        no microbatch is written to the first one before, and to one of its own after these.
        """
        number, slots = self._microbatch(each), self.slots[waiting]
        from_0 = self.ops.of_numbers("maximum", number, 0)
        if slots > self.timetable.microbatches:
            return self.ops.of_numbers("minimum", from_0, self.timetable.microbatches)
        return self.ops.of_numbers("remainder", from_0, slots)

    # The loops.

    def _loop(self, phase: Phase) -> None:
        carried = {each: made for each in self.state if (made := self._made_in(phase, each))}
        before = dict(self.state)
        loop, block = self.ops.loop(phase.begin, phase.end, [before[each] for each in carried])
        with ir.InsertionPoint(block):
            self.tick = _Tick(block.arguments[0])
            self.state |= zip(carried, list(block.arguments)[1:], strict=True)
            turns: dict[tuple[int, Kind], list[Pass]] = {}
            for each in phase.passes:
                turns.setdefault((each.stage, each.kind), []).append(each)
            for passes in turns.values():
                self._work(passes)
            # All transfers before anything else, so that they may be sent together.
            arrivals = {each: self._arrival(each, value) for each, value in carried.items()}
            self.ops.end_body(block, self._all_carried(arrivals, turns))
        self.state = {**before, **dict(zip(carried, self.ops.carried(loop), strict=True))}

    def _made_in(self, phase: Phase, each: Carried) -> int | None:
        """The value of what is carried, or of its lane, that a pass makes in a phase."""
        lane = self.lanes.get(each, [each]) if isinstance(each, Waiting) else [each]
        made = (one.value for one in lane if self.maker[one.value] in phase.passes)
        return next(made, None)

    def _work(self, passes: Sequence[Pass]) -> None:
        """Write the passes of one kind of a stage, of which it does one in a tick."""
        if self.timetable.chunks == 1:
            for op in self.ops_of[passes[0]]:
                self._write(op, passes[0])
            return
        exits = self.exits.get((passes[0].stage, passes[0].kind), [])
        types = [self._type_of(next(iter(each.values()))) for each in exits]

        def write(turn: Pass | None) -> list[ir.Value]:
            if turn is not None:
                for op in self.ops_of[turn]:
                    self._write(op, turn)
            return [
                _boxed(self.tick.values[each[turn], turn])
                if turn is not None and turn in each
                else self.ops.identity("sum", type_)
                for each, type_ in zip(exits, types, strict=True)
            ]

        for each, made in zip(exits, self._by_turn(passes, types, write), strict=True):
            for maker, value in each.items():
                if maker in passes:
                    type_ = self.numbered.values[value].handle.type
                    self.tick.values[value, maker] = _unboxed(made, type_)

    def _by_turn(
        self,
        passes: Sequence[Pass],
        types: Sequence[ir.Type],
        write: Callable[[Pass | None], Sequence[ir.Value]],
    ) -> list[ir.Value]:
        """The results of what `write` writes for the one of a stage's passes whose turn it is.

        It may be the turn of a chunk that has no pass of the kind, or is done: `None`.
        """
        table, tick = self.timetable, self.tick
        since = table.stages - table.first(passes[0]) % table.stages
        turn = self.ops.of_numbers("add", tick.number, since)
        turn = self.ops.of_numbers("divide", turn, table.stages)
        turn = self.ops.of_numbers("remainder", turn, table.chunks)
        of_turn = {table.turn(each): each for each in passes}

        def branch(number: int) -> Sequence[ir.Value]:
            self.tick = _Tick(tick.number, dict(tick.values))
            return write(of_turn.get(number))

        branches = [partial(branch, number) for number in range(table.chunks)]
        made = self.ops.case(turn, types, branches)
        self.tick = tick
        return made

    def _all_carried(
        self, arrivals: Mapping[Carried, ir.Value], turns: Mapping[tuple[int, Kind], Sequence[Pass]]
    ) -> list[ir.Value]:
        """All that is carried to the next tick, with what was made in this one."""
        if self.timetable.chunks == 1:
            return [self._carried(each, made) for each, made in arrivals.items()]
        new: dict[Carried, ir.Value] = {}
        groups: dict[tuple[int, int, Kind], list[Carried]] = {}
        """By the stage that carries them, and the stage and kind of the passes that make them."""
        for each, made in arrivals.items():
            if each in self.lanes:
                new[each] = made
                continue
            maker = self.maker[each.value]
            stage = each.stage if isinstance(each, Waiting) else maker.stage
            groups.setdefault((stage, maker.stage, maker.kind), []).append(each)
        for (_, stage, kind), group in groups.items():

            def write(turn: Pass | None, group: Sequence[Carried] = group) -> list[ir.Value]:
                return [
                    self._carried(each, arrivals[each])
                    if self.maker[each.value] == turn
                    else self.state[each]
                    for each in group
                ]

            types = [self.state[each].type for each in group]
            new |= zip(group, self._by_turn(turns[stage, kind], types, write), strict=True)
        return [new[each] for each in arrivals]

    def _microbatch(self, each: Pass) -> ir.Value:
        """The number of the microbatch that a pass works on; of none if it is not one of them.

        Where stages have several chunks, it must be the turn of the pass.
        """
        tick, table, first = self.tick, self.timetable, self.timetable.first(each)
        if each not in tick.microbatches:
            number = self.ops.of_numbers("add", tick.number, -first) if first else tick.number
            if table.chunks > 1:
                rounds = self.ops.of_numbers("divide", number, table.round)
                before = self.ops.of_numbers("multiply", rounds, table.stages)
                rest = self.ops.of_numbers("remainder", number, table.round)
                number = self.ops.of_numbers("add", before, rest)
            tick.microbatches[each] = number
        return tick.microbatches[each]

    def _write(self, op: Op, each: Pass) -> None:
        with located(op.handle):
            values = [self._read(value, each) for value in self.program.reads[id(op)]]
            results = self._copy(op, values, each.stage)
            self.tick.values |= {
                (v, each): made for v, made in zip(op.results, results, strict=True)
            }

    def _read(self, value: int, reader: Pass) -> ir.Value:
        """What a pass reads of a value."""
        if value not in self.program.batched:
            return self._shared(value, reader.stage)
        if (value, reader) not in self.tick.values:
            self.tick.values[value, reader] = self._of_microbatch(value, reader)
        return self.tick.values[value, reader]

    def _of_microbatch(self, value: int, reader: Pass) -> ir.Value:
        maker = self.maker.get(value)
        if maker is None:
            return self._rows(value, reader)
        if not self.timetable.age(maker, reader):
            return self.tick.values[value, maker]
        waiting = self.lane_of.get(found := Waiting(value, reader.stage), found)
        held = self.state[waiting]
        if self.slots[waiting] > 1:
            held = self.ops.of_row(self.ops.part(held, 0, self._slot(waiting, reader), 1))
        return _unboxed(held, self.numbered.values[value].handle.type)

    def _rows(self, value: int, reader: Pass) -> ir.Value:
        """A microbatch's rows of an argument, or of a value that is made once."""
        type_ = self.numbered.values[value].handle.type
        if value in self.program.slices:
            source, step = self.program.slices[value]
            whole = self._shared(source, reader.stage)
            return self._part(whole, step.dim, type_.shape[step.dim], reader)
        dim = batch_dim(type_.shape)
        size = type_.shape[dim] // self.timetable.microbatches
        part = self._part(self.numbered.values[value].handle, dim, size, reader)
        is_there = self.choice.of_value[value] == reader.stage
        return part if is_there else self._transfer(part, reader.stage)

    def _part(self, whole: ir.Value, dim: int, size: int, each: Pass) -> ir.Value:
        if self.parts == 1:
            return self.ops.part(whole, dim, self._place(size, each), size)
        size //= self.parts
        taken = self.ops.part(self._in_parts(whole, dim), dim + 1, self._place(size, each), size)
        return self._joined(taken, dim)

    def _put(self, whole: ir.Value, part: ir.Value, dim: int, each: Pass) -> ir.Value:
        """`whole` with the rows of a microbatch put in."""
        size = part.type.shape[dim] // self.parts
        if self.parts == 1:
            return self.ops.put(whole, part, dim, self._place(size, each))
        whole, part = (self._in_parts(value, dim) for value in (whole, part))
        return self._joined(self.ops.put(whole, part, dim + 1, self._place(size, each)), dim)

    def _in_parts(self, value: ir.Value, dim: int) -> ir.Value:
        """A value whose batch, dimension `dim`, is taken apart into parts and their rows."""
        shape = list(value.type.shape)
        shape[dim : dim + 1] = [self.parts, shape[dim] // self.parts]
        return hlo.reshape(value, shape)

    def _joined(self, value: ir.Value, dim: int) -> ir.Value:
        shape = list(value.type.shape)
        shape[dim : dim + 2] = [shape[dim] * shape[dim + 1]]
        return hlo.reshape(value, shape)

    def _place(self, size: int, each: Pass) -> ir.Value:
        """Where the rows of a microbatch begin in a part, of which each has `size`."""
        last = self.timetable.microbatches - 1
        inside = self.ops.of_numbers("maximum", self._microbatch(each), 0)
        inside = self.ops.of_numbers("minimum", inside, last)
        return self.ops.of_numbers("multiply", inside, size)

    def _arrival(self, each: Carried, value: int) -> ir.Value:
        """What is made in this tick of a value that is carried, on the stage that carries it."""
        maker = self.maker[value]
        made = _boxed(self.tick.values[value, maker])
        if not isinstance(each, Waiting) or each.stage == maker.stage:
            return made
        if (made, each.stage) not in self.tick.arrivals:
            self.tick.arrivals[made, each.stage] = self._transfer(made, each.stage)
        return self.tick.arrivals[made, each.stage]

    def _carried(self, each: Carried, made: ir.Value) -> ir.Value:
        """What is carried to the next tick, with what was made in this one."""
        maker, held = self.maker[each.value], self.state[each]
        if isinstance(each, Waiting):
            if self.slots[each] == 1:
                return made
            return self.ops.put(held, self.ops.row(made), 0, self._slot(each, maker))
        if isinstance(each, Total):
            return self._if_there(maker, self.ops.combined(each.reduction, held, made), held)
        if each.dim is None:
            is_first = self.ops.compare("EQ", self._microbatch(maker), 0)
            return self.ops.select(is_first, made, held)
        held_part = self._part(held, each.dim, made.type.shape[each.dim], maker)
        return self._put(held, self._if_there(maker, made, held_part), each.dim, maker)

    def _if_there(self, each: Pass, made: ir.Value, held: ir.Value) -> ir.Value:
        """`made` where the pass works on a microbatch in this tick, and `held` where on none."""
        number, ops = self._microbatch(each), self.ops
        low = ops.compare("GE", number, 0)
        high = ops.compare("LT", number, self.timetable.microbatches)
        return ops.select(ops.of_numbers("and", low, high), made, held)

    def _erase_old(self) -> None:
        once = [op for op in self.program.once if id(op) in self.choice.of_op]
        old = {id(op): op.handle for op in (*once, *self.program.ops, *self.program.after)}
        collectives = (*self.program.totals, *self.program.slices)
        makers = [self.numbered.values[value].handle.owner.operation for value in collectives]
        order = {op: number for number, op in enumerate(operations(self.end.block))}
        for op in sorted({*old.values(), *makers}, key=lambda op: -order[op]):
            op.erase()


def _boxed(value: ir.Value) -> ir.Value:
    """A value as a tensor."""
    if isinstance(value.type, ir.RankedTensorType):
        return value
    type_ = ir.RankedTensorType.get([], value.type)
    return build.create_value("tensor.from_elements", type_, [value])


def _unboxed(tensor: ir.Value, type_: ir.Type) -> ir.Value:
    """A tensor as a value of this type, which may be that of its one element."""
    if tensor.type == type_ or isinstance(type_, ir.RankedTensorType):
        return tensor
    return build.create_value("tensor.extract", type_, [tensor])
