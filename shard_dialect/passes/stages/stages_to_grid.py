"""Rewrite functions with several stages to shardings on the one grid that contains the stages.

    "mesh.sub_cluster"() {sym_name = "first", cluster = @g, offsets = [0, 0], sizes = [1, 2]}

    %2 = "mesh.collective_permute"(%1) {cluster = @second}
      becomes
    %2 = "mesh.collective_permute"(%1)
      {cluster = @g, mesh_axis = [0], permutation = [1, 0], mesh.stages = [@first, @second]}

This happens before propagation. A stage has all axes of the grid but one, the axis of the stages. A
tensor sharded as `[[1]]` on a stage is sharded as `[[1]]` on the grid, replicated along the axis of
the stages. From here on a function is on one grid, and `partition` lets each device run the ops of
its own stage only. The attribute `mesh.stage` of arguments and results names their stage.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count

from shard_dialect.errors import ShardError
from shard_dialect.ir.bindings import ir
from shard_dialect.ir.building.build import create
from shard_dialect.ir.diagnostics import error_at, located
from shard_dialect.ir.function import (
    BOUNDARY,
    boundary,
    form_of,
    functions_of,
    name_of,
    returns_of,
    set_boundary,
)
from shard_dialect.ir.grids import OPS as GRIDS
from shard_dialect.ir.grids import sub_clusters_of, write_cluster
from shard_dialect.ir.mesh import annotation_ops
from shard_dialect.ir.mesh.attributes import (
    BLOCKS,
    SHARDING,
    SHARDINGS,
    STAGE,
    STAGES,
    i64_array,
    symbol,
)
from shard_dialect.ir.mesh.manual_computation import is_manual
from shard_dialect.ir.mesh.notation import write_axes
from shard_dialect.ir.mesh.sharding_attributes import Shardings, rank_of
from shard_dialect.ir.mesh.stage_attributes import stages_at, stages_named
from shard_dialect.ir.walk import body, operations, walk
from shard_dialect.model import Annotation, Axes, Grid, SubCluster, stage_axis
from shard_dialect.model.axis import full_axis
from shard_dialect.passes.stages.assign_stages import StageAnnotations, Stages

PERMUTE = "mesh.collective_permute"


def stages_to_grid_axis(module: ir.Operation) -> None:
    """Rewrite the annotated functions with stages; raise a located `ShardError` if it fails."""
    sub_clusters = sub_clusters_of(module)
    if not sub_clusters:
        return
    shardings = Shardings.of(module)
    for function in functions_of(module):
        if form_of(function) != "annotated":
            continue
        with located(function):
            names = set(_grids_in(function, shardings))
            stages = [each for name, each in sub_clusters.items() if name in names]
            if stages:
                _StagesToGrid(function, stages, names, shardings).run()
            shardings = Shardings.of(module)
    _refuse_calls(module)


def _grids_in(function: ir.Operation, shardings: Shardings) -> Iterator[str]:
    """Yield the names of the grids in a function's annotations."""
    for key in BOUNDARY:
        yield from (
            annotation.grid
            for annotation in _boundary_annotations(function, key, shardings)
            if annotation
        )
    for op in (function, *walk(function)):
        yield from _named_by(op, shardings)
        transfer = _transfer_of(op)
        if transfer is not None:
            yield transfer[1]


def _boundary_annotations(
    function: ir.Operation, key: str, shardings: Shardings
) -> list[Annotation | None]:
    """The annotation of each argument or result at a function's boundary."""
    type_ = function.attributes["function_type"].value
    types = type_.inputs if key == "arg_attrs" else type_.results
    return [
        shardings.read_annotation(entry[SHARDING], rank_of(each)) if SHARDING in entry else None
        for entry, each in zip(boundary(function, key), types, strict=True)
    ]


def _grid_of(annotation: Annotation | None) -> str | None:
    return None if annotation is None else annotation.grid


def _named_by(op: ir.Operation, shardings: Shardings) -> list[str]:
    """The grids of the shardings on an op, and on the ops in its regions."""
    grids = []
    for inner in (op, *walk(op)) if op.name != "func.func" else (op,):
        with located(inner):
            annotation = [*shardings.of_results(inner).values()]
            for block in shardings.of_blocks(inner):
                annotation += block.values()
            annotated = annotation_ops.read_annotation(inner, shardings)
        grids += [
            each.grid for each in (*annotation, *([annotated.annotation] if annotated else []))
        ]
    return grids


def _transfer_of(op: ir.Operation) -> tuple[str | None, str] | None:
    """The source (if known) and target stage of an op that passes its operand on, or `None`.

    Such an op is a permutation that names a cluster and no axis.
    """
    if op.name != PERMUTE or "mesh_axis" in op.attributes or "cluster" not in op.attributes:
        return stages_named(op)
    return None, symbol(op.attributes["cluster"])


@dataclass
class _StagesToGrid:
    """Rewrites one function; `names` are the grids in it, `stages` the sub-clusters of these."""

    function: ir.Operation
    stages: Sequence[SubCluster]
    names: Collection[str]
    shardings: Shardings

    def run(self) -> None:
        """Rewrite the function; raise `ShardError` for what stages do not support."""
        self.grid = self._common_grid()
        self.axis = stage_axis(self.stages, self.grid)
        self.index = {stage.name: stage.offsets[self.axis] for stage in self.stages}
        self._refuse_without_stage()
        arguments, results = (
            _boundary_annotations(self.function, key, self.shardings) for key in BOUNDARY
        )
        self.of = Stages(
            self.function,
            StageAnnotations(
                list(map(_grid_of, arguments)),
                list(map(_grid_of, results)),
                _transfer_of,
                self._named_by,
                self._for_users,
            ),
        )
        self._note_axis()
        self._pass_all()
        self._rewrite_boundary("arg_attrs", arguments, map(self.of.of_argument, count()))
        returned = returns_of(self.function)[0].operands
        self._rewrite_boundary("res_attrs", results, map(self.of.of_value, returned))
        for op in walk(self.function):
            with located(op):
                self._rewrite_op(op)
        if "mesh_cluster" in self.function.attributes:
            self.function.attributes["mesh_cluster"] = ir.FlatSymbolRefAttr.get(self.grid.name)

    def _note_axis(self) -> None:
        """Record the axis of the stages on the grid's declaration."""
        for axis in {*self.grid.stage_axes} - {self.axis}:
            raise ShardError(f"{self.grid} has stages along axis {axis}, and along {self.axis}")
        for op in operations(self.function.block):
            if op.name in GRIDS and name_of(op) == self.grid.name:
                with ir.InsertionPoint(op), op.location:
                    write_cluster(replace(self.grid, stage_axes=(self.axis,)))
                op.erase()

    def _common_grid(self) -> Grid:
        grid = self.shardings.grid(self.stages[0].of)
        stages = {stage.name for stage in self.stages if stage.of == grid.name}
        for name in sorted({*self.names} - stages - {grid.name}):
            raise ShardError(
                f"function @{name_of(self.function)} has tensors on @{self.stages[0].name}, a part "
                f"of {grid}, and on @{name}: expected parts of one grid"
            )
        if not grid.is_static or grid.device_ids:
            raise ShardError(
                f"function @{name_of(self.function)} has stages of {grid}, whose sizes must be "
                "known, and its devices in their own order"
            )
        return grid

    def _refuse_without_stage(self) -> None:
        if len(self.function.regions[0].blocks) > 1:
            raise ShardError(
                f"function @{name_of(self.function)} has stages, and branches between blocks: "
                "expected one block"
            )
        for op in walk(self.function):
            if op.name == "func.call":
                raise error_at(
                    op.location, "'func.call' op is in a function with stages: run --inline first"
                )
            if is_manual(op):
                raise error_at(
                    op.location,
                    f"'{op.name}' op is a manual computation in a function with stages: their "
                    "collectives would be on another grid",
                )
            if _transfer_of(op) is not None and op.parent != self.function:
                raise error_at(
                    op.location,
                    f"'{op.name}' op passes a tensor on inside of a '{op.parent.name}'"
                    " op: stages are of a function's own block",
                )

    def _named_by(self, op: ir.Operation) -> list[str]:
        return _named_by(op, self.shardings)

    def _for_users(self, op: ir.Operation) -> str | None:
        with located(op):
            annotated = annotation_ops.read_annotation(op, self.shardings)
        return annotated.annotation.grid if annotated and annotated.for_users else None

    def _pass_all(self) -> None:
        """Turn ops that pass tensors on, and crossings, to permutations along the stages' axis."""
        for op, _ in self.of.of_ops():
            transfer = _transfer_of(op)
            if transfer is not None:
                with located(op):
                    self._pass(op, transfer[1])
        for op in self.of.crossings:
            with ir.InsertionPoint(op), located(op), op.location:
                permute = create(PERMUTE, [op.operands[0].type], [op.operands[0]])
                self._pass(permute, str(self._for_users(op)))
            op.operands[0] = permute.results[0]

    def _pass(self, op: ir.Operation, target: str) -> None:
        source = self.of.of_value(op.operands[0])
        if source is None:
            raise ShardError(
                f"'{op.name}' op passes on a tensor of no stage to @{target}: annotate it"
            )
        for name in (source, target):
            if name not in self.index:
                raise ShardError(
                    f"'{op.name}' op passes a tensor from @{source} to @{target}: expected stages"
                )
        a, b = self.index[source], self.index[target]
        permutation = list(range(self.grid.axes_size((self.axis,))))
        permutation[a], permutation[b] = b, a
        op.attributes["cluster"] = ir.FlatSymbolRefAttr.get(self.grid.name)
        op.attributes["mesh_axis"] = i64_array([self.axis])
        op.attributes["permutation"] = i64_array(permutation)
        named = [ir.FlatSymbolRefAttr.get(name) for name in (source, target)]
        op.attributes[STAGES] = ir.ArrayAttr.get(named)

    def _rewrite_boundary(
        self, key: str, annotation: Sequence[Annotation | None], stages: Iterable[str | None]
    ) -> None:
        entries = boundary(self.function, key)
        for entry, each, stage in zip(entries, annotation, stages, strict=False):
            if each is not None:
                entry[SHARDING] = self._on_grid(each)
            if stage in self.index:
                entry[STAGE] = ir.FlatSymbolRefAttr.get(str(stage))
        set_boundary(self.function, key, entries)

    def _rewrite_op(self, op: ir.Operation) -> None:
        if SHARDINGS in op.attributes:
            annotation = self.shardings.of_results(op)
            op.attributes[SHARDINGS] = self._list(annotation, len(op.results))
        if BLOCKS in op.attributes:
            counts = [len(block.arguments) for region in op.regions for block in region.blocks]
            lists = zip(self.shardings.of_blocks(op), counts, strict=False)
            op.attributes[BLOCKS] = ir.ArrayAttr.get([self._list(*each) for each in lists])
        annotated = annotation_ops.read_annotation(op, self.shardings)
        if annotated is not None:
            op.attributes["sharding"] = self._on_grid(annotated.annotation)
        loops = annotation_ops.read_loops(op, self.shardings)
        if loops is not None and loops[0] in self.index:
            axes = [write_axes(self._kept(each)) for each in loops[1]]
            op.attributes[annotation_ops.LOOPS] = ir.ArrayAttr.get(axes)

    def _list(self, annotation: Mapping[int, Annotation], count: int) -> ir.ArrayAttr:
        return ir.ArrayAttr.get(
            [
                self._on_grid(annotation[at]) if at in annotation else ir.UnitAttr.get()
                for at in range(count)
            ]
        )

    def _on_grid(self, annotation: Annotation) -> ir.Attribute:
        """The annotation on the grid, without the stages' axis, which has size 1 on a stage."""
        if annotation.grid not in self.index:
            return self.shardings.write(annotation)
        old = annotation.sharding
        split, partial = tuple(map(self._kept, old.split_axes)), self._kept(old.partial)
        new = replace(old, grid=self.grid.name, split_axes=split, partial=partial)
        return self.shardings.write(
            replace(annotation, sharding=new, replicated=self._kept(annotation.replicated))
        )

    def _kept(self, axes: Axes) -> Axes:
        return tuple(axis for axis in axes if full_axis(axis) != self.axis)


def _refuse_calls(module: ir.Operation) -> None:
    """Raise for calls of functions with stages, whose results no single device would have."""
    staged = {name_of(function) for function in functions_of(module) if has_stages(function)}
    for op in walk(module) if staged else ():
        if op.name == "func.call" and op.attributes["callee"].value in staged:
            raise error_at(
                op.location,
                f"'func.call' op calls @{op.attributes['callee'].value}, which has stages: run "
                "--inline first",
            )


def has_stages(function: ir.Operation) -> bool:
    """Whether a function that `stages_to_grid_axis` rewrote has stages."""
    return any(stage for key in BOUNDARY for stage in stages_at(function, key)) or any(
        STAGES in op.attributes for op in operations(body(function))
    )
