"""Rewrite functions with several stages to shardings on the one grid that contains the stages.

    "mesh.sub_cluster"() {sym_name = "first", cluster = @g, offsets = [0, 0], sizes = [1, 2]}

    %2 = "mesh.collective_permute"(%1) {cluster = @second}
      becomes
    %2 = "mesh.collective_permute"(%1)
      {cluster = @g, mesh_axis = [0], permutation = [1, -1],
       shard_dialect.stages = [@first, @second]}

A stage has one index along some axes of the grid, which is refined if need be; a tensor sharded as
`[[1]]` on the stage is sharded as `[[1]]` on the grid, replicated along these fixed axes. Arguments
and results name their stage by `shard_dialect.stage`. A transfer between stages with the same fixed
axes is a permutation along these. Others have no `mesh_axis`: `partition` plans their messages. A
transfer to a grid that is no part of another becomes an annotation for its users, and one of a part
of a tensor a slice.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from shard_dialect.collectives import NOBODY, flat_index
from shard_dialect.errors import ShardError, as_symbol
from shard_dialect.ir.bindings import ir
from shard_dialect.ir.building.build import annotate, create, replace_op
from shard_dialect.ir.diagnostics import located, warn
from shard_dialect.ir.function import (
    BOUNDARY,
    boundary,
    functions_of,
    name_of,
    set_boundary,
)
from shard_dialect.ir.grids import OPS as GRIDS
from shard_dialect.ir.grids import has_several_grids, sub_clusters_of, write_cluster
from shard_dialect.ir.mesh import annotation_ops
from shard_dialect.ir.mesh.annotation_ops import (
    BOUNDARY_OPS,
    anything,
    boundary_of,
    computations_around,
    manual_axes_at,
    manual_computations,
    write_manual_axes,
)
from shard_dialect.ir.mesh.attributes import MANUAL, STAGE, STAGES, i64_array, ints
from shard_dialect.ir.mesh.mesh_dialect import TRANSFER
from shard_dialect.ir.mesh.notation import write_axes
from shard_dialect.ir.mesh.sharding_attributes import Shardings, has_stages, rank_of
from shard_dialect.ir.numbered_function import Function, Op, read_function
from shard_dialect.ir.shard.local_collectives import is_between_devices
from shard_dialect.ir.walk import operations, walk
from shard_dialect.model import Annotation, Axes, Axis, Grid, SubCluster
from shard_dialect.model.grid_refinement import Refinement
from shard_dialect.model.sharding import ShardingError
from shard_dialect.model.sub_cluster import Place, refine_for, whole_axis
from shard_dialect.passes.calls import inline_where_called
from shard_dialect.passes.erase_sharding import erase_transfer
from shard_dialect.passes.framework.base import needs
from shard_dialect.passes.manual.replica_group_collectives import (
    check_between_devices,
    move_to_grid,
)
from shard_dialect.passes.propagate.module_graph import GROUP
from shard_dialect.passes.stages.assign_stages import StageAnnotations, Stages
from shard_dialect.passes.stages.settle_grids import (
    PERMUTE,
    annotated_loops,
    annotations_in,
    boundary_annotations,
    grids_in,
    rewrite_annotations,
    transfer_of,
)


@needs(forms=("annotated",), grid=True, fact=has_several_grids)
def stages_to_grid(module: ir.Operation) -> None:
    """Rewrite annotated functions with several stages to shardings on the grid that has them.

    A transfer to a grid that is no part of another becomes an annotation for its users, and one of
    a part of a tensor becomes a slice.
    """
    shardings = Shardings.of(module)
    sub_clusters = sub_clusters_of(module)
    staged = set()
    for function in functions_of(module, "annotated"):
        with located(function):
            if sub_clusters.keys() & set(grids_in(function, shardings)):
                staged.add(name_of(function))
    # A device that is not of a stage could not return the stage's tensors from a call (`calls`).
    inline_where_called(module, staged)
    annotated = functions_of(module, "annotated")
    for function in [each for each in annotated if not has_stages(each)]:  # else it is done already
        with located(function):
            shardings = Shardings.of(module)
            names = set(grids_in(function, shardings))
            stages = [each for name, each in sub_clusters.items() if name in names]
            if stages:
                _StagesToGrid(function, stages, names, shardings).run()
            else:
                _transfers_to_annotations(function, shardings)


def _transfers_to_annotations(function: ir.Operation, shardings: Shardings) -> None:
    """Replace transfers to other grids of the same devices by annotations for their users."""
    for op in walk(function):
        transfer = transfer_of(op)
        if transfer is None or STAGES in op.attributes:
            continue
        if op.name == TRANSFER:
            erase_transfer(op)
            continue
        with located(op), ir.InsertionPoint(op), op.location:
            value = op.operands[0]
            open_ = anything(shardings.grid(transfer[1]), rank_of(value.type))
            annotation = shardings.of_results(op).get(0, open_)
            annotated = annotate(value, shardings.write(annotation), as_result=False)
        replace_op(op, annotated)


def _is_inside(value: ir.Value, op: ir.Operation) -> bool:
    """Whether the value is made in a region of the op."""
    owner = value.owner
    around = owner.owner if isinstance(owner, ir.Block) else owner.operation.parent
    while around is not None and around.name != "builtin.module":
        if around.operation == op:
            return True
        around = around.operation.parent
    return False


def _grid_of(annotation: Annotation | None) -> str | None:
    return None if annotation is None else annotation.grid


def _named_by(annotations: Mapping[int, Annotation]) -> dict[int, str]:
    """The grids of annotated results or block arguments, by their number."""
    return {number: annotation.grid for number, annotation in annotations.items()}


@dataclass
class _StagesToGrid:
    """Rewrites one function; `names` are the grids in it, `stages` the sub-clusters of these."""

    function: ir.Operation
    stages: Sequence[SubCluster]
    names: Collection[str]
    shardings: Shardings
    warned: set[str] = field(default_factory=set)
    """The stages of which the user was told that they are no multiples."""

    def run(self) -> None:
        """Rewrite the function; raise `ShardError` for what stages do not support."""
        self.grid = self._common_grid()
        refined = refine_for(self.stages, self.grid, *self._used_axes())
        self.fine = refined.fine
        self.refinement = {each.name: each.refinement(refined) for each in self.stages}
        self.refinement[self.grid.name] = refined
        self.places = {each.name: each.place(self.grid, self.fine) for each in self.stages}
        self.places[self.grid.name] = Place(self.fine)
        self._refuse_without_stage()
        arguments, results = (
            boundary_annotations(self.function, key, self.shardings) for key in BOUNDARY
        )
        function = read_function(self.function)
        self.of = Stages(
            function,
            StageAnnotations(
                list(map(_grid_of, arguments)),
                list(map(_grid_of, results)),
                transfer_of,
                self._of_results,
                lambda op: list(map(_named_by, self.shardings.of_blocks(op))),
                self._for_users,
            ),
            self.grid.name,
        )
        self._declare()
        self._part_groups(function)
        self._pass_all()
        rewrite_annotations(self.function, self._on_grid, self.shardings)
        self._note_boundary("arg_attrs", map(self.of.of_value, function.arguments))
        made = map(self.of.of_value, function.returns[0].operands)
        annotated = map(_grid_of, results)
        self._note_boundary("res_attrs", (b or a for a, b in zip(made, annotated, strict=True)))
        for op in walk(self.function):
            with located(op):
                self._rewrite_loops(op)
        for computation in reversed(manual_computations(self.function)):  # inner ones first
            with located(computation):
                self._move_computation(computation)
        if "mesh_cluster" in self.function.attributes:
            self.function.attributes["mesh_cluster"] = ir.FlatSymbolRefAttr.get(self.fine.name)

    def _used_axes(self) -> tuple[list[Axis], list[Axis]]:
        """The axes of the grid that annotations on it use, and those on its parts."""
        stages = {each.name: each for each in self.stages}
        of_all: list[Axis] = []
        of_stages: list[Axis | None] = []
        uses: list[tuple[str, Axes]] = [
            (each.grid, (*each.sharding.axes, *each.replicated))
            for each in annotations_in(self.function, self.shardings)
        ]
        for computation in manual_computations(self.function):
            grid = annotation_ops.grid_of(computation, self.shardings)
            uses.append((grid.name, tuple(ints(computation.attributes[MANUAL]))))
        for _, name, loops in annotated_loops(self.function, self.shardings):
            uses += [(name, axes) for axes in loops]
        for name, axes in uses:
            stage = stages.get(name)
            for axis in axes:
                if stage is None:
                    of_all.append(axis)
                elif self.shardings.grid(stage.name).axes_size((axis,)) > 1:
                    of_stages.append(whole_axis(axis, stage, self.grid))
        return of_all, [axis for axis in of_stages if axis is not None]

    def _declare(self) -> None:
        """Declare the grid to be on, with the axes along which stages differ."""
        fixed = {axis for each in self.places.values() for axis in each.axes}
        fine = self.shardings.grids.get(self.fine.name, self.fine)
        fine = replace(fine, stage_axes=tuple(sorted({*fine.stage_axes, *fixed})))
        for op in operations(self.function.block):
            if op.name in GRIDS and name_of(op) in (self.grid.name, self.fine.name):
                with ir.InsertionPoint(op), op.location:
                    write_cluster(fine)
                if name_of(op) == self.fine.name:
                    op.erase()
                break

    def _part_groups(self, function: Function) -> None:
        """Let a sharding group be one for each stage: a tensor is split among its own devices."""
        members = [op for op in function.ops if op.name == GROUP]
        most = max((op.handle.attributes["group_id"].value for op in members), default=0)
        parts: dict[int, dict[str | None, int]] = {}
        for op in members:
            number, stage = op.handle.attributes["group_id"], self.of.of_value(op.operands[0])
            of_stage = parts.setdefault(number.value, {stage: number.value})
            if stage not in of_stage:
                most += 1
                of_stage[stage] = most
            op.handle.attributes["group_id"] = ir.IntegerAttr.get(number.type, of_stage[stage])

    def _common_grid(self) -> Grid:
        grid = self.shardings.grid(self.stages[0].of)
        stages = {stage.name for stage in self.stages if stage.of == grid.name}
        for name in sorted({*self.names} - stages - {grid.name}):
            raise ShardError(
                f"function {as_symbol(name_of(self.function))} has tensors on "
                f"{as_symbol(self.stages[0].name)}, a part of {grid}, and on {as_symbol(name)}: "
                "expected parts of one grid"
            )
        if not grid.is_static:
            raise ShardError(
                f"function {as_symbol(name_of(self.function))} has stages of {grid}, of unknown "
                "sizes"
            )
        return grid

    def _refuse_without_stage(self) -> None:
        if len(self.function.regions[0].blocks) > 1:
            raise ShardError(
                f"function {as_symbol(name_of(self.function))} has stages, and branches between "
                "blocks: expected one block"
            )

    def _move_computation(self, computation: ir.Operation) -> None:
        """Let a manual computation be along the axes of the refined grid that its own become."""
        grid = annotation_ops.grid_of(computation, self.shardings)
        refinement = self.refinement[grid.name]
        manual = tuple(ints(computation.attributes[MANUAL]))
        axes = refinement.refined_axes(manual)
        if self.fine.axes_size(axes) != grid.axes_size(manual):
            part = next(each for each in self.stages if each.name == grid.name)
            raise ShardingError(
                f"this manual computation is along axes {grid.axes_text(manual)} of stage "
                f"{part}, which has {part.text_in(self.grid)}"
            )
        for op in walk(computation):
            if next(computations_around(op)) != computation:
                continue
            with located(op):
                if op.name in BOUNDARY_OPS:
                    entry = boundary_of(op, self.shardings)
                    moved = self._on_grid(entry.annotation)
                    op.attributes["sharding"] = self.shardings.write(moved)
                    write_manual_axes(op, "manual_axes", axes)
                elif is_between_devices(op):
                    check_between_devices(op, grid)  # while it is the op that the user wrote
                    move_to_grid(op, refinement, manual_axes_at(op))
        write_manual_axes(computation, MANUAL, axes)

    def _of_results(self, op: ir.Operation) -> dict[int, str]:
        with located(op):
            named = _named_by(self.shardings.of_results(op))
            if op.name in BOUNDARY_OPS:
                return {0: boundary_of(op, self.shardings).grid.name}
            annotated = annotation_ops.read_annotation(op, self.shardings)
            loops = annotation_ops.read_loops(op, self.shardings)
        if loops is not None:
            named = dict.fromkeys(range(len(op.results)), loops[0]) | named
        if annotated and not annotated.for_users:
            named |= dict.fromkeys(range(len(op.results)), annotated.annotation.grid)
        return named

    def _for_users(self, op: ir.Operation) -> str | None:
        with located(op):
            annotated = annotation_ops.read_annotation(op, self.shardings)
        return annotated.annotation.grid if annotated and annotated.for_users else None

    def _pass_all(self) -> None:
        """Turn ops that pass tensors on, and crossings, to permutations along the stages' axes."""
        for op in self.of.function.ops:
            transfer = transfer_of(op.handle)
            if transfer is not None:
                with located(op.handle):
                    self._pass(op.handle, self.of.of_value(op.operands[0]), transfer[1])
        for op in self.of.crossings:
            self._cross(op, 0, str(self._for_users(op.handle)))
        for op, number, stage in self.of.operand_crossings:
            self._cross(op, number, stage)

    def _cross(self, op: Op, number: int, target: str) -> None:
        """Pass the operand `number` of an op on to another stage."""
        before = [op.handle, *computations_around(op.handle)][-1]
        with ir.InsertionPoint(before), located(op.handle), op.location:
            operand = op.handle.operands[number]
            if before != op.handle and _is_inside(operand, before):
                raise ShardError(
                    f"'{op.name}' op is in a manual computation, and passes a tensor of it on to "
                    f"other devices, those of {self.shardings.grid(target)}: do so outside of it"
                )
            permute = create(PERMUTE, [operand.type], [operand])
            self._pass(permute, self.of.of_value(op.operands[number]), target)
        op.handle.operands[number] = permute.results[0]

    def _pass(self, op: ir.Operation, source: str | None, target: str) -> None:
        source = source or self.grid.name  # all devices have a value that is on no stage
        for name in (source, target):
            if name not in self.places:
                raise ShardError(
                    f"'{op.name}' op passes a tensor from {as_symbol(source)} to "
                    f"{as_symbol(target)}: expected stages of {self.grid}"
                )
        op.attributes["cluster"] = ir.FlatSymbolRefAttr.get(self.fine.name)
        named = [ir.FlatSymbolRefAttr.get(name) for name in (source, target)]
        op.attributes[STAGES] = ir.ArrayAttr.get(named)
        if op.name == TRANSFER:  # of a part of a tensor, so shards are not only permuted
            return
        places = [self.places[name] for name in (source, target)]
        axes = places[0].axes
        if axes and axes == places[1].axes and all(place.fixed for place in places):
            a, b = (
                flat_index(next(iter(place.indices)), self.fine.sizes_along(axes))
                for place in places
            )
            permutation = [NOBODY] * self.fine.axes_size(axes)
            permutation[a] = b
            op.attributes["mesh_axis"] = i64_array(axes)
            op.attributes["permutation"] = i64_array(permutation)

    def _note_boundary(self, key: str, stages: Iterable[str | None]) -> None:
        """Record the stage of each argument, or result."""
        entries = boundary(self.function, key)
        for entry, stage in zip(entries, stages, strict=True):
            if stage is not None and stage != self.grid.name:
                entry[STAGE] = ir.FlatSymbolRefAttr.get(stage)
        set_boundary(self.function, key, entries)

    def _rewrite_loops(self, op: ir.Operation) -> None:
        loops = annotation_ops.read_loops(op, self.shardings)
        if loops is not None and loops[0] in self.refinement:
            refined = self.refinement[loops[0]].refined_axes
            axes = [write_axes(refined(each)) for each in loops[1]]
            op.attributes[annotation_ops.LOOPS] = ir.ArrayAttr.get(axes)

    def _on_grid(self, annotation: Annotation) -> Annotation:
        """The annotation on the refined grid, along the free axes of its stage alone."""
        refinement = self.refinement[annotation.grid]
        self._check_kept(annotation, refinement)
        return replace(
            annotation,
            sharding=refinement.refined(annotation.sharding),
            replicated=refinement.refined_axes(annotation.replicated),
        )

    def _check_kept(self, annotation: Annotation, refinement: Refinement) -> None:
        """Warn if a tensor of a stage is split less than annotated; raise if it must not be."""
        sharding = annotation.sharding
        kept = self.fine.axes_size(refinement.refined_axes(sharding.axes))
        if kept == refinement.grid.axes_size(sharding.axes):
            return
        part = next(each for each in self.stages if each.name == annotation.grid)
        what = part.text_in(self.grid)
        text = f"stage {part} has {what}, so a tensor sharded as {sharding} on it"
        if sharding.halos or sharding.offsets or sharding.partial:
            raise ShardError(f"{text} cannot be")
        if part.name not in self.warned:
            self.warned.add(part.name)
            how = f"split among {kept} devices" if kept > 1 else "unsharded on each device"
            warn(f"{text} is {how}", self.function.location)
