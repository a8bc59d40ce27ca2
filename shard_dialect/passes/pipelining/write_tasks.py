"""Write the ops of all microbatches in the order of a schedule, with transfers between stages.

A schedule says in which order each stage works on which microbatch:

    gpipe, 3 stages, 4 microbatches          1f1b: a stage goes back as soon as it can
    stage 0  0 1 2 3 . . . . 0 1 2 3         stage 0  0 1 2 . . 0 3 1 . 2 . 3
    stage 1  . 0 1 2 3 . . 0 1 2 3 .         stage 1  . 0 1 . 0 2 1 3 2 . 3 .
    stage 2  . . 0 1 2 3 0 1 2 3 . .         stage 2  . . 0 0 1 1 2 2 3 3 . .

With `1f1b` a stage keeps values for the backward pass of as many microbatches as there are stages
from it on, and with `gpipe` of all. Sources: Huang et al., GPipe (arXiv 1811.06965); Narayanan et
al., PipeDream (arXiv 1806.03377), there called 1F1B.

`join_parts` replaces a sum of disjoint parts, each in zeros of its own, by updates of one tensor.

    %a = stablehlo.dynamic_update_slice %zeros, %g, %c1, ...
    %b = stablehlo.pad %h, 0, low = [2, 0], high = [1, 0]       %a, and %h put into it as row 2
    %c = stablehlo.add %a, %b

So JAX writes the gradient of weights of which a loop, or unrolled layers, take one row after the
other. Each stage can then put in its own rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from shard_dialect.errors import ShardError
from shard_dialect.ir.bindings import ir
from shard_dialect.ir.building import build, reductions
from shard_dialect.ir.diagnostics import located
from shard_dialect.ir.mesh.attributes import SHARDINGS, i64_array
from shard_dialect.ir.mesh.mesh_dialect import TRANSFER
from shard_dialect.ir.numbered_function import Function, Op, replace_captured
from shard_dialect.ir.walk import body, operations
from shard_dialect.passes.pipelining.annotations_on_stages import MARK, AnnotationsOnStages
from shard_dialect.passes.pipelining.choose_stages import Rows, StageChoice
from shard_dialect.passes.pipelining.split_batch import (
    MicrobatchProgram,
    combined,
    concatenated,
    rows,
)
from shard_dialect.passes.pipelining.unroll_loops import (
    UPDATE,
    are_disjoint,
    integer_constant,
    written,
)

Kind = Literal["gpipe", "1f1b"]


@dataclass(frozen=True, slots=True)
class Task:
    """The work of one stage on one microbatch, in the forward or the backward pass."""

    stage: int
    microbatch: int
    is_forward: bool


def schedule(
    kind: Kind, stages: int, microbatches: int, *, backward: bool = True
) -> list[list[Task]]:
    """The tasks of each step of time, by stage; each stage does at most one task in a step.

    A task is done after the tasks before it in its stage's order, and after the one of the stage
    before it (after it, in the backward pass) on the same microbatch.

    >>> [[each.stage for each in step] for step in schedule("gpipe", 2, 2, backward=False)]
    [[0], [0, 1], [1]]
    """
    left = [_tasks_of(kind, stage, stages, microbatches, backward) for stage in range(stages)]
    done: set[Task] = set()
    steps = []
    while any(left):
        step = [tasks[0] for tasks in left if tasks and _needs(tasks[0], stages) <= done]
        for task in step:
            left[task.stage].pop(0)
        done.update(step)
        steps.append(step)
    return steps


def _tasks_of(kind: Kind, stage: int, stages: int, microbatches: int, backward: bool) -> list[Task]:
    """The tasks of one stage in order."""
    forward = [Task(stage, number, True) for number in range(microbatches)]
    if not backward:
        return forward
    back = [Task(stage, number, False) for number in range(microbatches)]
    if kind == "gpipe":
        return forward + back
    # The last stage goes back at once; each stage before it has one more microbatch under way, for
    # which it keeps values. So no stage keeps more than there are stages.
    ahead = min(stages - stage, microbatches)
    tasks = forward[:ahead]
    for number in range(microbatches):
        tasks += [back[number], *forward[ahead + number : ahead + number + 1]]
    return tasks


def _needs(task: Task, stages: int) -> set[Task]:
    """The tasks of other stages that a task waits for."""
    before = task.stage + (-1 if task.is_forward else 1)
    is_there = 0 <= before < stages
    return {Task(before, task.microbatch, task.is_forward)} if is_there else set()


def drawn(steps: list[list[Task]], stages: int) -> str:
    """A line for each stage, with the microbatch of each step; backward passes are in brackets.

    >>> print(drawn(schedule("1f1b", 2, 2), 2))
    stage 0    0   1      [0]     [1]
    stage 1        0  [0]  1  [1]
    """
    lines = []
    for stage in range(stages):
        cells = []
        for step in steps:
            task = next((each for each in step if each.stage == stage), None)
            number = "" if task is None else str(task.microbatch)
            shown = number if task is None or task.is_forward else f"[{number}]"
            cells.append(f" {shown} " if task is not None and task.is_forward else shown)
        lines.append(f"stage {stage}  " + "".join(f"{cell:>4}" for cell in cells))
    return "\n".join(line.rstrip() for line in lines)


@dataclass
class TaskWriter:
    """Writes copies of the ops of one microbatch before `end`, for each task.

    `stablehlo` says whether the batch is taken apart by ops of StableHLO.
    """

    program: MicrobatchProgram
    choice: StageChoice
    annotations: AnnotationsOnStages
    microbatches: int
    end: ir.Operation
    stablehlo: bool
    made: dict[tuple[int, int], ir.Value] = field(default_factory=dict)
    """By value and microbatch: the copy of the value."""
    passed: dict[tuple[int, int, int], ir.Value] = field(default_factory=dict)
    """By value, microbatch and stage: the copy that was passed on to that stage."""

    @property
    def numbered(self) -> Function:
        """The function of one microbatch."""
        return self.program.function

    def write(self, steps: Sequence[Sequence[Task]], dims: Sequence[int | None]) -> None:
        """Write all tasks before the function's end, and let it return their results.

        `dims` has for each result the dimension that is the batch, or `None`.
        """
        choice = self.choice
        self._pass_on(None, self.numbered.arguments)
        for op in self.program.once:
            if id(op) in choice.of_op:  # others are constants, which all stages have
                self._clone(op, None)
                self._pass_on(None, op.results)
        for step in steps:  # tasks of one step do not wait for each other: transfers come after
            for task in step:
                self._run(task, choice.forward if task.is_forward else choice.backward)
            for task in step:
                for op in choice.forward if task.is_forward else choice.backward:
                    if choice.of_op[id(op)] == task.stage:
                        self._pass_on(task.microbatch, op.results)
        self._pass_on(None, list(self.program.totals))
        for op in self.program.after:
            self._clone(op, None)
            self._pass_on(None, op.results)
        for number, (value, dim) in enumerate(zip(self.program.returned, dims, strict=True)):
            self.end.operands[number] = self._result(value, dim)
        self._erase_old()

    def _run(self, task: Task, ops: Sequence[Op]) -> None:
        """Write one task: its ops, and what it adds to totals."""
        for op in ops:
            if self.choice.of_op[id(op)] == task.stage:
                self._clone(op, task.microbatch)
                self._add(op, task.microbatch)

    def _clone(self, op: Op, microbatch: int | None) -> None:
        with located(op.handle):
            stage, stacks = self.choice.of_op[id(op)], self.choice.stacks
            if id(op) in stacks.takes:
                taken = self._take(op, stacks.takes[id(op)])
                self.made[op.results[0], _key(None)] = taken
                if MARK in op.handle.attributes:
                    taken.owner.attributes[MARK] = op.handle.attributes[MARK]
                    self.annotations.annotate(taken.owner, stage)
                return
            if id(op) in stacks.puts:
                self.made[op.results[0], _key(None)] = self._put(op, stacks.puts[id(op)])
                return
            read = self.program.reads[id(op)]
            values = [self._value(value, microbatch, stage) for value in read]
            clone = op.handle.clone(ir.InsertionPoint(self.end))
            for number, value in enumerate(values[: len(op.operands)]):
                clone.operands[number] = value
            handles = [self.numbered.values[number].handle for number in read]
            replace_captured(clone, dict(zip(handles, values, strict=True)))
            for value, result in zip(op.results, clone.results, strict=True):
                self.made[value, _key(microbatch)] = result
            self.annotations.annotate(clone, stage)

    def _take(self, op: Op, rows: Rows) -> ir.Value:
        """Pass the rows that an op takes of a stack to the stage of the op."""
        (stack,), (result,) = self.program.reads[id(op)][:1], op.handle.results
        whole, type_ = self._value(stack, None, self.choice.all), result.type
        box = build.resized(whole.type, [rows.size, *whole.type.shape[1:]])
        taken = self._transfer_rows([whole], rows, box, self.choice.of_op[id(op)])
        if type_ == box:
            return taken
        none = build.slice_attributes(box.shape, [0] * box.rank, [1, 0, 0, 0])  # drops a dimension
        return build.create("tensor.extract_slice", [type_], [taken], none).results[0]

    def _put(self, op: Op, rows: Rows) -> ir.Value:
        """Put a stage's part of a stack into it."""
        part, into = op.operands[rows.operand], op.operands[rows.into]
        own = self._value(part, None, self.choice.of_value.get(part, self.choice.all))
        whole = self._value(into, None, self.choice.all)
        box = build.resized(whole.type, [rows.size, *whole.type.shape[1:]])
        if own.type != box:
            none = build.slice_attributes(box.shape, [0] * box.rank, [1, 1, 0, 0, 0])
            empty = build.empty(box).results[0]
            own = build.create("tensor.insert_slice", [box], [own, empty], none).results[0]
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
        return build.create(TRANSFER, [type_], values, attributes).results[0]

    def _value(self, value: int, microbatch: int | None, stage: int) -> ir.Value:
        """A microbatch's copy of a value on a stage; all share one where it is not batched."""
        if value in self.program.slices:
            return self._sliced(value, microbatch, stage)
        if value in self.program.batched and value in self.numbered.arguments:
            return self._argument(value, microbatch, stage)
        if value not in self.program.batched:
            microbatch = None
        at = self.choice.of_value.get(value, stage)
        if at != stage and (value, _key(microbatch), stage) not in self.passed:
            raise ShardError(
                f"needs a value of stage {at} on stage {stage} before it is there: take "
                "schedule=gpipe, or fewer stages"
            )
        if at != stage:
            return self.passed[value, _key(microbatch), stage]
        handle = self.numbered.values[value].handle
        found = self.made.get((value, _key(microbatch)))
        if found is None and (value in self.program.batched or value in self.program.totals):
            raise ShardError(
                f"needs a value of stage {at} that is not there yet: take schedule=gpipe, or "
                "fewer stages"
            )
        return found if found is not None else handle

    def _argument(self, value: int, microbatch: int | None, stage: int) -> ir.Value:
        """The rows of a batched argument that a microbatch has."""
        at, key = self.choice.of_value[value], _key(microbatch)
        if (value, key) not in self.made:
            handle = self.numbered.values[value].handle
            size = handle.type.shape[0] // self.microbatches
            self.made[value, key] = rows(handle, key * size, size, 0, self.stablehlo)
        if at == stage:
            return self.made[value, key]
        if (value, key, stage) not in self.passed:
            self.passed[value, key, stage] = self._transfer(self.made[value, key], stage)
        return self.passed[value, key, stage]

    def _sliced(self, value: int, microbatch: int | None, stage: int) -> ir.Value:
        source, step = self.program.slices[value]
        whole = self._value(source, None, stage)
        size = self.numbered.values[value].handle.type.shape[step.dim]
        return rows(whole, _key(microbatch) * size, size, step.dim, self.stablehlo)

    def _add(self, op: Op, microbatch: int) -> None:
        """Add the results of a microbatch to the totals."""
        for total, (value, step) in self.program.totals.items():
            if value in op.results:
                added = self.made[value, microbatch]
                before = self.made.get((total, _key(None)))
                if before is not None:
                    added = combined(step.reduction, before, added, self.stablehlo)
                self.made[total, _key(None)] = added

    def _pass_on(self, microbatch: int | None, values: Sequence[int]) -> None:
        """Pass values on to the other stages that use them."""
        for value in values:
            is_whole_batch = microbatch is None and value in self.program.batched
            for stage in sorted(self.choice.needed.get(value, ())) if not is_whole_batch else ():
                key = (value, _key(microbatch), stage)
                own = self._value(value, microbatch, self.choice.of_value[value])
                self.passed[key] = self._transfer(own, stage)

    def _transfer(self, value: ir.Value, stage: int) -> ir.Value:
        if not isinstance(value.type, ir.RankedTensorType):
            type_ = ir.RankedTensorType.get([], value.type)
            scalar = build.create("tensor.from_elements", [type_], [value]).results[0]
            passed = self._transfer(scalar, stage)
            return build.create("tensor.extract", [value.type], [passed]).results[0]
        target = {"cluster": ir.FlatSymbolRefAttr.get(self.annotations.name_of(stage))}
        return build.create("mesh.collective_permute", [value.type], [value], target).results[0]

    def _result(self, value: int, dim: int | None) -> ir.Value:
        stage = self.choice.of_value.get(value, 0)
        if dim is None:  # of one microbatch alone it is not split either
            return self._value(value, 0 if value in self.program.batched else None, stage)
        parts = [self._value(value, microbatch, stage) for microbatch in range(self.microbatches)]
        return concatenated(parts, dim, self.stablehlo)

    def _erase_old(self) -> None:
        once = [op for op in self.program.once if id(op) in self.choice.of_op]
        old = {id(op): op.handle for op in (*once, *self.program.ops, *self.program.after)}
        collectives = (*self.program.totals, *self.program.slices)
        makers = [self.numbered.values[value].handle.owner.operation for value in collectives]
        order = {op: number for number, op in enumerate(operations(self.end.block))}
        for op in sorted({*old.values(), *makers}, key=lambda op: -order[op]):
            op.erase()


def _key(microbatch: int | None) -> int:
    """The number of a microbatch; -1 for values that all share."""
    return -1 if microbatch is None else microbatch


_REPEAT = "stablehlo.broadcast_in_dim"
_Part = tuple[ir.Value, list[int]]
"""A part, and the indices at which it is written."""


def join_parts(function: ir.Operation) -> None:
    """Replace the sums of disjoint parts in a function of one block, in place."""
    parts_of: dict[ir.Value, list[_Part] | None] = {}
    for op in operations(body(function)):
        for value in op.results:
            parts_of[value] = _parts(value, parts_of)
        if op.name != "stablehlo.add" or SHARDINGS in op.attributes:
            continue
        first, second = (parts_of.get(value) for value in op.operands)
        if first is None or second is None or not _are_apart(first, second):
            continue
        with ir.InsertionPoint(op), op.location:
            joined = _joined(op.operands[0], first, second)
        parts_of[joined] = [*first, *second]
        op.results[0].replace_all_uses_with(joined)
        op.erase()


def _parts(value: ir.Value, parts_of: dict[ir.Value, list[_Part] | None]) -> list[_Part] | None:
    """The parts of a tensor that is zero elsewhere; `None` if it is not known to be."""
    op = value.owner
    if _is_zero(value):
        return []
    if (found := written(value)) is not None:
        before = parts_of.get(op.operands[0])
        return None if before is None else [*before, found]
    if not isinstance(op, ir.Block) and op.name == "stablehlo.pad" and _is_zero(op.operands[1]):
        low, high, between = (
            list(op.attributes[key])
            for key in ("edge_padding_low", "edge_padding_high", "interior_padding")
        )
        return [(op.operands[0], low)] if min(*low, *high, 0) >= 0 and not any(between) else None
    return None


def _is_zero(value: ir.Value) -> bool:
    """Whether all elements are constants, and zero."""
    while not isinstance(value.owner, ir.Block) and value.owner.name == _REPEAT:
        value = value.owner.operands[0]
    constant = build.splat_value(value) or build.constant_value(value)
    return isinstance(constant, ir.FloatAttr | ir.IntegerAttr) and constant.value == 0


def _are_apart(first: list[_Part], second: list[_Part]) -> bool:
    return all(
        are_disjoint(at, update.type.shape, other_at, other.type.shape)
        for update, at in first
        for other, other_at in second
    )


def _joined(whole: ir.Value, first: list[_Part], second: list[_Part]) -> ir.Value:
    """`whole`, which has the `first` parts, with the `second` put in."""
    if first and whole.owner.name != UPDATE:
        element = reductions.identity("sum", whole.type.element_type)
        zero = ir.DenseElementsAttr.get_splat(whole.type, element)
        whole = build.create("stablehlo.constant", [whole.type], [], {"value": zero}).results[0]
        second = [*first, *second]
    number = ir.RankedTensorType.get([], ir.IntegerType.get_signless(32))
    for update, at in second:
        places = [integer_constant(number, begin) for begin in at]
        whole = build.create(UPDATE, [whole.type], [whole, update, *places]).results[0]
    return whole
