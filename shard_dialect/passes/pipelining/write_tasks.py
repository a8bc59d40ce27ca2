"""Write the ops of all microbatches in the order of a schedule, with transfers between stages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from shard_dialect.errors import ShardError
from shard_dialect.ir.bindings import ir
from shard_dialect.ir.building import build
from shard_dialect.ir.diagnostics import located
from shard_dialect.ir.mesh.attributes import i64_array
from shard_dialect.ir.mesh.mesh_dialect import TRANSFER
from shard_dialect.ir.numbered_function import Function, Op
from shard_dialect.ir.walk import operations
from shard_dialect.passes.pipelining.annotations_on_stages import MARK, AnnotationsOnStages
from shard_dialect.passes.pipelining.batch_ops import combined, concatenated, rows
from shard_dialect.passes.pipelining.choose_stages import StageChoice
from shard_dialect.passes.pipelining.layer_stacks import Rows
from shard_dialect.passes.pipelining.microbatch_program import MicrobatchProgram
from shard_dialect.passes.pipelining.read_values import replace_captured
from shard_dialect.passes.pipelining.schedules import Task


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
    """What a microbatch, by its number, has of a value."""
    passed: dict[tuple[int, int, int], ir.Value] = field(default_factory=dict)
    """The same on another stage, whose number comes last."""

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
        for step in steps:  # the tasks of one step wait for nobody, so what is sent comes after
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
        """What a microbatch has of a value on a stage; the same of all where it is not batched."""
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
        """Add what a microbatch gives to the totals."""
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
    """The number of a microbatch; -1 for what all have."""
    return -1 if microbatch is None else microbatch
