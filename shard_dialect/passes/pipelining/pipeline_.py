"""Make a pipeline of a function: stages on parts of the grid, and microbatches in their order.

    func.func @main(%x: tensor<32x8xf32>, %w: tensor<8x8xf32>, %v: tensor<8x8xf32>) ...
      with pipeline{stages=2 microbatches=8 arguments=0} becomes

    %x0 = tensor.extract_slice %x[0, 0] [4, 8] [1, 1]         microbatch 0 on @stage0,
    %h0 = stablehlo.dot_general %x0, %w
    %p0 = "mesh.collective_permute"(%h0) {cluster = @stage1}
    %x1 = tensor.extract_slice %x[4, 0] [4, 8] [1, 1]         microbatch 1 on @stage0, and
    %h1 = stablehlo.dot_general %x1, %w
    %p1 = "mesh.collective_permute"(%h1) {cluster = @stage1}
    %y0 = stablehlo.dot_general %p0, %v                       microbatch 0 on @stage1, ...

What the microbatches of a reduction over the batch give, gradients, say, is added up on the stage
that makes it. Results that have the batch as a dimension are concatenated. `propagate` goes on from
there: the result is in the annotated form, as somebody would write it by hand.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from shard_dialect.errors import ShardError
from shard_dialect.ir.bindings import ir
from shard_dialect.ir.building import build
from shard_dialect.ir.diagnostics import error_at, located
from shard_dialect.ir.function import (
    BOUNDARY,
    boundary,
    form_of,
    functions_of,
    name_of,
    returns_of,
    set_boundary,
    update_type,
)
from shard_dialect.ir.mesh import annotation_ops
from shard_dialect.ir.mesh.attributes import (
    ARGUMENT,
    FORM,
    RESULT,
    SHARDING,
    SHARDINGS,
    i64_array,
)
from shard_dialect.ir.mesh.manual_computation import anything
from shard_dialect.ir.mesh.sharding_attributes import Shardings, rank_of
from shard_dialect.ir.numbered_function import Op
from shard_dialect.ir.read_function import read_function
from shard_dialect.ir.shard.local_collectives import read_local
from shard_dialect.ir.walk import body, operations, walk
from shard_dialect.model import AllReduce, AllSlice, Annotation
from shard_dialect.model.axis import SubAxis, full_axis
from shard_dialect.passes.framework.base import Pass
from shard_dialect.passes.pipelining.batch_ops import combined, concatenated, is_stablehlo, rows
from shard_dialect.passes.pipelining.choose_stages import StageChoice
from shard_dialect.passes.pipelining.read_values import read_values, replace_captured
from shard_dialect.passes.pipelining.schedules import Task, schedule
from shard_dialect.passes.pipelining.split_batch import split_batch
from shard_dialect.passes.propagate.constraints import default_grid
from shard_dialect.passes.vocabularies.import_ import import_annotations

_MARK = "mesh.annotated"
"""On an op while its function is rewritten: the annotations of its results."""


@dataclass(frozen=True)
class Pipeline(Pass):
    """Divide the function into stages of a pipeline, and its batch into microbatches."""

    name = "pipeline"

    stages: int = 2
    """The number of stages, which divides the size of the grid's axis 0."""
    microbatches: int = 4
    """The number of microbatches, which divides the batch."""
    arguments: str = "0"
    """The numbers of the arguments whose first dimension is the batch, as `0,3`."""
    schedule: Literal["gpipe", "1f1b"] = "1f1b"
    """All forward passes before all backward passes, or one after the other."""

    def rewrite(self, module: ir.Operation) -> None:
        """Rewrite the module's function; raise a located `ShardError` for what has no pipeline."""
        import_annotations(module)
        functions = functions_of(module)
        if len(functions) != 1:
            raise ShardError(
                f"pass 'pipeline' divides one function, and the module has {len(functions)}: run "
                "--inline first"
            )
        function = functions[0]
        if form_of(function) != "annotated":
            raise error_at(function.location, "a pipeline is made before --propagate")
        if min(self.stages, self.microbatches) < 1:
            raise ShardError("pass 'pipeline' needs at least one stage and one microbatch")
        texts = [each.strip() for each in self.arguments.split(",")]
        if not all(each.isdecimal() for each in texts):
            raise ShardError(
                f"option 'arguments' of pass 'pipeline' is '{self.arguments}': expected numbers, "
                "as in arguments='0,3'"
            )
        _Pipeline(self, module, function, sorted(set(map(int, texts)))).run()


@dataclass
class _Pipeline:
    """Rewrites one function: the ops of one microbatch are cloned for each task."""

    options: Pipeline
    module: ir.Operation
    function: ir.Operation
    batched: Sequence[int]
    made: dict[tuple[int, int], ir.Value] = field(default_factory=dict)
    """What a microbatch, by its number, has of a value."""
    passed: dict[tuple[int, int, int], ir.Value] = field(default_factory=dict)
    """The same on another stage, whose number comes last."""

    def run(self) -> None:
        self.shardings = Shardings.of(self.module)
        self.grid = default_grid(read_function(self.function), self.shardings)
        self._take_annotations()
        names = set(self.shardings.grids)
        microbatches = _fresh("microbatches", names)
        self.stage_names = [_fresh(f"stage{at}", names) for at in range(self.options.stages)]
        self.stablehlo = any(map(is_stablehlo, walk(self.function)))
        arguments = body(self.function).arguments
        whole = [value.type for value in arguments]
        dims = split_batch(self.function, self.batched, self.options.microbatches, microbatches)
        self._classify()
        self._declare_stages(microbatches)
        self._choose()
        for value, type_ in zip(arguments, whole, strict=True):
            value.set_type(type_)
        self.end = returns_of(self.function)[0]
        with ir.InsertionPoint(self.end), self.function.location:
            self._write(dims)
        self._erase_old()
        update_type(self.function)
        self._annotate_boundary()

    def _take_annotations(self) -> None:
        """Take annotations from the function, and note them for later."""
        self.boundary: dict[str, list[Annotation | None]] = {}
        type_ = self.function.attributes["function_type"].value
        for key, types in zip(BOUNDARY, (type_.inputs, type_.results), strict=True):
            entries = boundary(self.function, key)
            self.boundary[key] = [
                self.shardings.read_annotation(entry.pop(SHARDING), rank_of(each))
                if SHARDING in entry
                else None
                for entry, each in zip(entries, types, strict=True)
            ]
            set_boundary(self.function, key, entries)
        block = body(self.function)
        arguments = {value: at for at, value in enumerate(block.arguments)}
        for op in walk(self.function):
            with located(op):
                annotated = annotation_ops.read_annotation(op, self.shardings)
                if annotated is not None:
                    if op.block != block:
                        raise ShardError(
                            f"'{op.name}' op is in a region: in a pipeline, annotate the results "
                            "of ops with regions"
                        )
                    value = op.operands[0]
                    if value in arguments:
                        self.boundary["arg_attrs"][arguments[value]] = annotated.annotation
                    else:
                        _mark(value, op.attributes["sharding"])
                    op.results[0].replace_all_uses_with(value)
                    op.erase()
                elif SHARDINGS in op.attributes:
                    del op.attributes[SHARDINGS]

    def _classify(self) -> None:
        """Tell apart what runs for each microbatch, once before, and once after all of them."""
        self.numbered = read_function(self.function)
        self.reads = read_values(self.numbered)
        batched = {self.numbered.arguments[at] for at in self.batched}
        late: set[int] = set()
        self.ops: list[Op] = []
        self.once: list[Op] = []
        self.after: list[Op] = []
        self.totals: dict[int, tuple[int, AllReduce]] = {}
        """Of a value that microbatches add to, the value that they add, and how."""
        self.slices: dict[int, tuple[int, AllSlice]] = {}
        for op in self.numbered.blocks[0].ops[:-1]:
            local = read_local(op.name, op.handle.attributes)
            step = None if local is None else local[1]
            if isinstance(step, AllReduce):
                self.totals[op.results[0]] = op.operands[0], step
                late.update(op.results)
            elif isinstance(step, AllSlice):
                self.slices[op.results[0]] = op.operands[0], step
                batched.update(op.results)
            elif any(value in late for value in self.reads[id(op)]):
                self.after.append(op)
                late.update(op.results)
            elif any(value in batched for value in self.reads[id(op)]):
                self.ops.append(op)
                batched.update(op.results)
            else:
                self.once.append(op)
        self.is_batched = batched

    def _declare_stages(self, microbatches: str) -> None:
        """Declare the parts of the grid along its axis 0, and drop the grid of microbatches."""
        if not self.grid.rank or not self.grid.is_static:
            raise ShardError(f"grid {self.grid} has no axis 0 of known size to divide into stages")
        size, count = self.grid.axes_size((0,)), self.options.stages
        if size % count:
            raise error_at(
                self.function.location,
                f"axis 0 of grid {self.grid} has {size} devices, which {count} stages do not "
                "divide",
            )
        self.sizes = (size // count, *self.grid.sizes_along(range(1, self.grid.rank)))
        for op in operations(body(self.module)):
            if op.name == "mesh.cluster" and name_of(op) == microbatches:
                op.erase()
        with ir.InsertionPoint(self.function), self.function.location:
            for stage, name in enumerate(self.stage_names):
                offsets = (stage * self.sizes[0], *(0,) * (self.grid.rank - 1))
                attributes = {
                    "sym_name": ir.StringAttr.get(name),
                    "cluster": ir.FlatSymbolRefAttr.get(self.grid.name),
                    "offsets": i64_array(offsets),
                    "sizes": i64_array(self.sizes),
                }
                build.create("mesh.sub_cluster", [], [], attributes)

    def _choose(self) -> None:
        slices = {made: source for made, (source, _) in self.slices.items()}
        count = self.options.stages
        self.choice = StageChoice(self.numbered, count, self.ops, self.once, slices, self.reads)
        for total, (value, _) in self.totals.items():
            self.choice.of_value[total] = self.choice.of_value[value]
        for op in self.after:
            self.choice.place(op)

    def _write(self, dims: Sequence[int | None]) -> None:
        choice, count = self.choice, self.options.microbatches
        has_backward = bool(choice.backward)
        steps = schedule(self.options.schedule, choice.count, count, backward=has_backward)
        self._pass_on(None, self.numbered.arguments)
        for op in self.once:
            if id(op) in choice.of_op:  # others are constants, which all stages have
                self._clone(op, None)
                self._pass_on(None, op.results)
        for step in steps:  # the tasks of one step wait for nobody, so what is sent comes after
            for task in step:
                self._run(task, choice.forward if task.is_forward else choice.backward)
            for task in step:
                for op in choice.forward if task.is_forward else choice.backward:
                    if self.choice.of_op[id(op)] == task.stage:
                        self._pass_on(task.microbatch, op.results)
        for op in self.after:
            self._clone(op, None)
            self._pass_on(None, op.results)
        for number, (value, dim) in enumerate(
            zip(self.numbered.blocks[0].end.operands, dims, strict=True)
        ):
            self.end.operands[number] = self._result(value, dim)

    def _run(self, task: Task, ops: Sequence[Op]) -> None:
        """Write one task: its ops, and what it adds to totals."""
        for op in ops:
            if self.choice.of_op[id(op)] == task.stage:
                self._clone(op, task.microbatch)
                self._add(op, task.microbatch)

    def _clone(self, op: Op, microbatch: int | None) -> None:
        with located(op.handle):
            stage = self.choice.of_op[id(op)]
            read = self.reads[id(op)]
            values = [self._value(value, microbatch, stage) for value in read]
            clone = op.handle.clone(ir.InsertionPoint(self.end))
            for number, value in enumerate(values[: len(op.operands)]):
                clone.operands[number] = value
            handles = [self.numbered.values[number].handle for number in read]
            replace_captured(clone, dict(zip(handles, values, strict=True)))
            for value, result in zip(op.results, clone.results, strict=True):
                self.made[value, _key(microbatch)] = result
            if _MARK in clone.attributes:
                self._annotate(clone, stage)

    def _annotate(self, op: ir.Operation, stage: int) -> None:
        """Write the annotations that the op's results had, on the op's stage."""
        marks = op.attributes[_MARK]
        del op.attributes[_MARK]
        for value, mark in zip(op.results, marks, strict=True):
            if not isinstance(mark, ir.UnitAttr):
                annotation = self.shardings.read_annotation(mark, rank_of(value.type))
                attributes = {
                    "sharding": self.shardings.write(self._on_stage(annotation, stage)),
                    "required": ir.BoolAttr.get(True),
                    "as_result": ir.BoolAttr.get(True),
                }
                build.create("mesh.annotate", [value.type], [value], attributes)

    def _value(self, value: int, microbatch: int | None, stage: int) -> ir.Value:
        """What a microbatch has of a value on a stage; the same of all where it is not batched."""
        if value in self.slices:
            return self._sliced(value, microbatch, stage)
        if value in self.is_batched and value in self.numbered.arguments:
            return self._argument(value, microbatch, stage)
        if value not in self.is_batched:
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
        if found is None and (value in self.is_batched or value in self.totals):
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
            size = handle.type.shape[0] // self.options.microbatches
            self.made[value, key] = rows(handle, key * size, size, 0, self.stablehlo)
        if at == stage:
            return self.made[value, key]
        if (value, key, stage) not in self.passed:
            self.passed[value, key, stage] = self._transfer(self.made[value, key], stage)
        return self.passed[value, key, stage]

    def _sliced(self, value: int, microbatch: int | None, stage: int) -> ir.Value:
        source, step = self.slices[value]
        whole = self._value(source, None, stage)
        size = self.numbered.values[value].handle.type.shape[step.dim]
        return rows(whole, _key(microbatch) * size, size, step.dim, self.stablehlo)

    def _add(self, op: Op, microbatch: int) -> None:
        """Add what a microbatch gives to the totals."""
        for total, (value, step) in self.totals.items():
            if value in op.results:
                added = self.made[value, microbatch]
                before = self.made.get((total, _key(None)))
                if before is not None:
                    added = combined(step.reduction, before, added, self.stablehlo)
                self.made[total, _key(None)] = added

    def _pass_on(self, microbatch: int | None, values: Sequence[int]) -> None:
        """Pass values on to the other stages that use them."""
        for value in values:
            is_whole_batch = microbatch is None and value in self.is_batched
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
        target = {"cluster": ir.FlatSymbolRefAttr.get(self.stage_names[stage])}
        return build.create("mesh.collective_permute", [value.type], [value], target).results[0]

    def _result(self, value: int, dim: int | None) -> ir.Value:
        stage = self.choice.of_value.get(value, 0)
        if dim is None:  # of one microbatch alone it is not split either
            return self._value(value, 0 if value in self.is_batched else None, stage)
        parts = [
            self._value(value, microbatch, stage) for microbatch in range(self.options.microbatches)
        ]
        return concatenated(parts, dim, self.stablehlo)

    def _erase_old(self) -> None:
        once = [op for op in self.once if id(op) in self.choice.of_op]
        old = {id(op): op.handle for op in (*once, *self.ops, *self.after)}
        collectives = (*self.totals, *self.slices)
        makers = [self.numbered.values[value].handle.owner.operation for value in collectives]
        order = {op: number for number, op in enumerate(operations(body(self.function)))}
        for op in sorted({*old.values(), *makers}, key=lambda op: -order[op]):
            op.erase()

    def _annotate_boundary(self) -> None:
        """Put arguments and results on their stages, with the annotations that they had."""
        if FORM in self.function.attributes:
            del self.function.attributes[FORM]
        types = self.function.attributes["function_type"].value
        returned = self.numbered.blocks[0].end.operands
        numbers = {"arg_attrs": self.numbered.arguments, "res_attrs": returned}
        for key, of_type in zip(BOUNDARY, (types.inputs, types.results), strict=True):
            entries = boundary(self.function, key)
            for entry, value, annotation, type_ in zip(
                entries, numbers[key], self.boundary[key], of_type, strict=True
            ):
                entry.pop(ARGUMENT, None)
                entry.pop(RESULT, None)
                stage = self.choice.of_value.get(value)
                if stage is not None and isinstance(type_, ir.RankedTensorType):
                    known = annotation or anything(self.grid, type_.rank)
                    entry[SHARDING] = self.shardings.write(self._on_stage(known, stage))
            set_boundary(self.function, key, entries)

    def _on_stage(self, annotation: Annotation, stage: int) -> Annotation:
        """The annotation on the grid of a stage, along whose axes it may be split."""
        used = {full_axis(axis) for axis in annotation.sharding.axes}
        if used and annotation.grid != self.grid.name:
            raise error_at(
                self.function.location,
                f"a tensor is annotated {annotation} on {self.shardings.grid(annotation.grid)}, "
                f"and the stages are parts of {self.grid}: annotate tensors on one grid",
            )
        if 0 in used and self.sizes[0] == 1:
            raise error_at(
                self.function.location,
                f"a tensor is annotated {annotation} along axis 0 of {self.grid}, which the stages "
                "divide: leave it out",
            )
        ends = [
            axis.end
            for axis in annotation.sharding.axes
            if isinstance(axis, SubAxis) and axis.axis == 0
        ]
        if 0 in used and (annotation.sharding.offsets or any(self.sizes[0] % end for end in ends)):
            raise error_at(
                self.function.location,
                f"a tensor is annotated {annotation} along the {self.grid.axes_size((0,))} devices "
                f"of axis 0 of {self.grid}, of which a stage has {self.sizes[0]}: leave it out",
            )
        sharding = replace(annotation.sharding, grid=self.stage_names[stage])
        return replace(annotation, sharding=sharding)


def _mark(value: ir.Value, annotation: ir.Attribute) -> None:
    """Note the annotation of an op's result on the op."""
    op = value.owner.operation
    unmarked = [ir.UnitAttr.get()] * len(op.results)
    marks = list(op.attributes[_MARK]) if _MARK in op.attributes else unmarked
    marks[list(op.results).index(value)] = annotation
    op.attributes[_MARK] = ir.ArrayAttr.get(marks)


def _key(microbatch: int | None) -> int:
    """The number of a microbatch; -1 for what all have."""
    return -1 if microbatch is None else microbatch


def _fresh(name: str, names: set[str]) -> str:
    found, number = name, 1
    while found in names:
        number += 1
        found = f"{name}_{number}"
    names.add(found)
    return found
