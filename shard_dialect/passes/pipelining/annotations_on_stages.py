"""The annotations of a function that becomes a pipeline, moved from its grid to the stages'.

They are taken from the function before its batch is split, and written again on the parts of the
grid on which the tensors are.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace

from shard_dialect.errors import ShardError
from shard_dialect.ir.bindings import ir
from shard_dialect.ir.building import build
from shard_dialect.ir.building.build import replace_op
from shard_dialect.ir.diagnostics import error_at, located
from shard_dialect.ir.function import BOUNDARY, boundary, set_boundary
from shard_dialect.ir.grids import write_sub_cluster
from shard_dialect.ir.mesh import annotation_ops
from shard_dialect.ir.mesh.annotation_ops import anything
from shard_dialect.ir.mesh.attributes import (
    ARGUMENT,
    RESULT,
    SHARDING,
    SHARDINGS,
    drop_attributes,
)
from shard_dialect.ir.mesh.sharding_attributes import Shardings, rank_of
from shard_dialect.ir.walk import body, walk
from shard_dialect.model import Annotation, Grid, SubCluster
from shard_dialect.model.grid import Axes, Axis, SubAxis, full_axis

MARK = "mesh.annotated"
"""On an op while its function is rewritten: the annotations of its results."""
StageOf = Callable[[int], int | None]
"""The stage of a value, by its number; `None` if it is on none."""


@dataclass
class AnnotationsOnStages:
    """The annotations of `function`, whose `grid` is divided along axis 0 into the named stages."""

    function: ir.Operation
    shardings: Shardings
    grid: Grid
    stages: Sequence[str]
    boundary: dict[str, list[Annotation | None]] = field(default_factory=dict)
    """Of each argument and result, its annotation."""

    @property
    def sizes(self) -> tuple[int, ...]:
        """The sizes of a stage."""
        size = self.grid.axes_size((0,)) // len(self.stages)
        return (size, *self.grid.sizes_along(range(1, self.grid.rank)))

    def take(self) -> None:
        """Take annotations from the function, and note them for later."""
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
                    value = op.operands[0]
                    if value in arguments:
                        self.boundary["arg_attrs"][arguments[value]] = annotated.annotation
                    else:
                        _mark(_of_op(value), op.attributes["sharding"])
                    replace_op(op, value)
                else:
                    drop_attributes(op, SHARDINGS)

    def parts_of(self, argument: int, dim: int) -> int:
        """The number of devices of a stage among which a dimension of an argument is split."""
        annotation = self.boundary["arg_attrs"][argument]
        if annotation is None or annotation.grid != self.grid.name:
            return 1
        axes = annotation.sharding.split_axes[dim]
        return self.grid.axes_size(tuple(axis for axis in axes if full_axis(axis) != 0))

    def name_of(self, stage: int) -> str:
        """The name of a stage; that of the grid for the number after the last one's."""
        return self.stages[stage] if stage < len(self.stages) else self.grid.name

    def on_stage(self, value: ir.Value, stage: int) -> ir.Value:
        """Annotate that a tensor is on a stage."""
        annotation = self._on_stage(anything(self.grid, rank_of(value.type)), stage)
        return build.annotate(value, self.shardings.write(annotation), as_result=True)

    def divided(self, value: ir.Value) -> ir.Value:
        """Annotate that the rows of a tensor are divided among the stages."""
        annotation = self._divided(anything(self.grid, rank_of(value.type)))
        return build.annotate(value, self.shardings.write(annotation), as_result=True)

    def _divided(self, annotation: Annotation) -> Annotation:
        """The annotation of a tensor on all stages, among which its rows are divided.

        They may be annotated so already.
        """
        rows = annotation.sharding.split_axes[0]
        if rows[:1] == (0,):
            sharding = annotation.sharding.with_dim(0, rows[1:])
            annotation = replace(annotation, sharding=sharding)
        sharding = self._on_all(annotation).sharding
        return replace(
            annotation, sharding=sharding.with_dim(0, (*self._stage_axes, *sharding.split_axes[0]))
        )

    @property
    def _stage_axes(self) -> tuple[Axis, ...]:
        """The (sub-)axis of the grid along which the stages differ."""
        count = len(self.stages)
        if count == 1:
            return ()
        return (0,) if self.sizes[0] == 1 else (SubAxis(0, 1, count),)

    def _on_all(self, annotation: Annotation) -> Annotation:
        """The annotation on the whole grid, in each stage along that stage's axes."""
        self._check(annotation)
        count = len(self.stages)

        def inner(axes: Axes) -> Axes:
            return tuple(
                axis
                if full_axis(axis) != 0 or count == 1
                else SubAxis(0, axis.pre * count, axis.size)
                if isinstance(axis, SubAxis)
                else SubAxis(0, count, self.sizes[0])
                for axis in axes
            )

        sharding = annotation.sharding
        split = tuple(map(inner, sharding.split_axes))
        sharding = replace(sharding, split_axes=split, partial=inner(sharding.partial))
        return replace(annotation, sharding=sharding, replicated=inner(annotation.replicated))

    def declare(self) -> None:
        """Declare the stages, before the function."""
        if not self.grid.rank or not self.grid.is_static:
            raise ShardError(f"grid {self.grid} has no axis 0 of known size to divide into stages")
        size, count = self.grid.axes_size((0,)), len(self.stages)
        if size % count:
            raise error_at(
                self.function.location,
                f"axis 0 of grid {self.grid} has {size} devices, which {count} stages do not "
                "divide",
            )
        with ir.InsertionPoint(self.function), self.function.location:
            for stage, name in enumerate(self.stages):
                offsets = (stage * self.sizes[0], *(0,) * (self.grid.rank - 1))
                write_sub_cluster(SubCluster(name, self.grid.name, offsets, self.sizes))

    def annotate(self, op: ir.Operation, stage: int) -> None:
        """Write the annotations that a copy of an op had, and the ops in it, on the op's stage."""
        for each in walk(op) if len(op.regions) else ():
            with ir.InsertionPoint.after(each), each.location:
                self._annotate(each, stage)
        self._annotate(op, stage)

    def _annotate(self, op: ir.Operation, stage: int) -> None:
        if MARK not in op.attributes:
            return
        marks = op.attributes[MARK]
        del op.attributes[MARK]
        for value, mark in zip(op.results, marks, strict=True):
            if not isinstance(mark, ir.UnitAttr):
                annotation = self.shardings.read_annotation(mark, rank_of(value.type))
                sharding = self.shardings.write(self._on_stage(annotation, stage))
                build.annotate(value, sharding, as_result=True)

    def annotate_boundary(
        self,
        arguments: Sequence[int],
        results: Sequence[int],
        stage_of: StageOf,
        stacks: Collection[int],
    ) -> None:
        """Put arguments and results on their stages, with the annotations that they had.

        The rows of the arguments that are `stacks` are divided among the stages.
        """
        types = self.function.attributes["function_type"].value
        values = {"arg_attrs": arguments, "res_attrs": results}
        for key, of_type in zip(BOUNDARY, (types.inputs, types.results), strict=True):
            entries = boundary(self.function, key)
            for entry, value, annotation, type_ in zip(
                entries, values[key], self.boundary[key], of_type, strict=True
            ):
                entry.pop(ARGUMENT, None)
                entry.pop(RESULT, None)
                stage = stage_of(value)
                if stage is not None and isinstance(type_, ir.RankedTensorType):
                    known = annotation or anything(self.grid, type_.rank)
                    is_stack = key == "arg_attrs" and value in stacks
                    known = self._divided(known) if is_stack else self._on_stage(known, stage)
                    entry[SHARDING] = self.shardings.write(known)
            set_boundary(self.function, key, entries)

    def _on_stage(self, annotation: Annotation, stage: int) -> Annotation:
        """The annotation on the grid of a stage, or of all, along whose axes it may be split."""
        if stage == len(self.stages):
            return self._on_all(annotation)
        self._check(annotation)
        return replace(annotation, sharding=replace(annotation.sharding, grid=self.stages[stage]))

    def _check(self, annotation: Annotation) -> None:
        """Raise unless a tensor may be split so within a stage."""
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


def _of_op(value: ir.Value) -> ir.Value:
    """The result of a loop that has the sharding of what it carries; other values as they are."""
    if not isinstance(value.owner, ir.Block):
        return value
    loop = value.owner.owner.operation
    place = list(value.owner.arguments).index(value) - len(value.owner.arguments)
    if len(loop.results) < -place:
        raise ShardError(
            f"the value is an argument of a '{loop.name}' op's region: in a pipeline, annotate "
            "what ops make"
        )
    return loop.results[len(loop.results) + place]


def _mark(value: ir.Value, annotation: ir.Attribute) -> None:
    """Note the annotation of an op's result on the op."""
    op = value.owner.operation
    unmarked = [ir.UnitAttr.get()] * len(op.results)
    marks = list(op.attributes[MARK]) if MARK in op.attributes else unmarked
    marks[list(op.results).index(value)] = annotation
    op.attributes[MARK] = ir.ArrayAttr.get(marks)
