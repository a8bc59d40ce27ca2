"""Bring the tensors of a function on as few grids as possible, before its stages are found.

@e(), the empty grid       nothing is split on it, which any other grid can say: the function's
@one(), of one device      a part of the function's grid, or of one that has all such devices
@line(4) beside a part     the same devices as @square(2x2), a part of which has tensors: what is
of @square(2x2)            split along axis 0 of @line is split along axes 0 and 1 of @square
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

from shard_dialect.ir.bindings import ir
from shard_dialect.ir.building.build import create
from shard_dialect.ir.diagnostics import error_at, located
from shard_dialect.ir.function import form_of, functions_of, name_of
from shard_dialect.ir.grids import OPS as GRIDS
from shard_dialect.ir.grids import fresh_name, sub_clusters_of, write_cluster
from shard_dialect.ir.mesh import annotation_ops
from shard_dialect.ir.mesh.attributes import i64_array
from shard_dialect.ir.mesh.sharding_attributes import Shardings
from shard_dialect.ir.sdy.convert import is_maximal
from shard_dialect.ir.walk import body, operations, walk
from shard_dialect.model import Annotation, Axes, Axis, Grid
from shard_dialect.model.axis import SubAxis
from shard_dialect.model.grid_refinement import common_refinements
from shard_dialect.passes.stages.annotated_stages import grids_in
from shard_dialect.passes.stages.rewrite_annotations import rewrite_annotations


def settle_grids(module: ir.Operation) -> None:
    """Rewrite the annotations of all functions in the annotated form, in place.

    Raises a located `ShardError` for a grid of one device that the function's grid has not.
    """
    shardings = Shardings.of(module)
    if all(grid.rank for grid in shardings.grids.values()) and not sub_clusters_of(module):
        return
    for function in functions_of(module):
        if form_of(function) != "annotated":
            continue
        with located(function):
            shardings = Shardings.of(module)
            _leave_empty_grids(function, shardings)
            names = set(grids_in(function, shardings))
            _maximal_to_parts(names, module, shardings)
            shardings = Shardings.of(module)
            parts = [part for name, part in sub_clusters_of(module).items() if name in names]
            if parts:
                whole = shardings.grid(parts[0].of)
                others = names - {part.name for part in parts} - {whole.name}
                _move_to(whole, others, function, shardings)


def _leave_empty_grids(function: ir.Operation, shardings: Shardings) -> None:
    """Move annotations on empty grids to the function's first other grid, or to the module's."""
    names = set(grids_in(function, shardings))
    empty = {each for each in names if _is_empty(shardings.grid(each))}
    used = [grid for name, grid in shardings.grids.items() if name in names and grid.rank]
    others = used or [grid for grid in shardings.grids.values() if grid.rank]
    if not empty or not others:
        return
    for op in walk(function):
        with located(op):
            annotated = annotation_ops.read_annotation(op, shardings)
        if annotated and annotated.annotation.grid in empty and _is_open(annotated.annotation):
            op.results[0].replace_all_uses_with(op.operands[0])
            op.erase()

    def change(annotation: Annotation) -> Annotation:
        if annotation.grid not in empty:
            return annotation
        return replace(annotation, sharding=replace(annotation.sharding, grid=others[0].name))

    rewrite_annotations(function, change, shardings)


def _is_empty(grid: Grid) -> bool:
    return not grid.rank and not grid.device_ids


def _is_open(annotation: Annotation) -> bool:
    """Whether a tensor may be split along any axes of any grid."""
    return annotation.is_unconstrained or annotation.sharding.rank == 0


def _maximal_to_parts(names: Collection[str], module: ir.Operation, shardings: Shardings) -> None:
    """Declare the grids of one device that a function uses as parts of the other one it uses.

    Without one they are parts of the module's first grid that has these devices, or of a new one.
    """
    maximal = [each for name in names if is_maximal(each := shardings.grid(name))]
    if not maximal:
        return
    count = 1 + max(device for grid in maximal for device in grid.device_ids)
    used = sorted((g for g in map(shardings.grid, names) if g.rank), key=lambda grid: grid.name)
    declared = [
        grid
        for grid in shardings.grids.values()
        if grid.rank and grid.is_static and grid.size >= count
    ]
    whole = next(iter([*used, *declared]), None) or _new_grid(count, module, shardings)
    for op in operations(body(module)):
        if op.name not in GRIDS or name_of(op) not in {grid.name for grid in maximal}:
            continue
        grid = shardings.grid(name_of(op))
        (device,) = grid.device_ids
        if device >= whole.size:
            raise error_at(op.location, f"grid {grid} is device {device}, which is not in {whole}")
        attributes = {
            "sym_name": op.attributes["sym_name"],
            "cluster": ir.FlatSymbolRefAttr.get(whole.name),
            "offsets": i64_array(whole.coordinates(device)),
            "sizes": i64_array((1,) * whole.rank),
        }
        with ir.InsertionPoint(op), op.location:
            create("mesh.sub_cluster", [], [], attributes)
        op.erase()


def _new_grid(count: int, module: ir.Operation, shardings: Shardings) -> Grid:
    """Declare a line of devices."""
    grid = Grid(fresh_name("devices", set(shardings.grids)), (count,))
    with ir.InsertionPoint.at_block_begin(body(module)), module.location:
        write_cluster(grid)
    return grid


def _move_to(
    whole: Grid, others: Iterable[str], function: ir.Operation, shardings: Shardings
) -> None:
    """Move annotations on other grids of the same devices to `whole`, if it has such axes."""
    axes_of = {name: _in_terms_of(whole, shardings.grid(name)) for name in others}

    def change(annotation: Annotation) -> Annotation:
        axes = axes_of.get(annotation.grid)
        if axes is None:
            return annotation

        def moved(split: Axes) -> Axes:
            return tuple(new for axis in split for new in axes[axis])

        sharding = annotation.sharding
        if any(isinstance(axis, SubAxis) for axis in (*sharding.axes, *annotation.replicated)):
            return annotation
        sharding = replace(
            sharding,
            grid=whole.name,
            split_axes=tuple(map(moved, sharding.split_axes)),
            partial=moved(sharding.partial),
        )
        return replace(annotation, sharding=sharding, replicated=moved(annotation.replicated))

    if any(axes_of.values()):
        rewrite_annotations(function, change, shardings)


def _in_terms_of(whole: Grid, other: Grid) -> Mapping[Axis, Axes] | None:
    """The (sub-)axes of `whole` that each axis of another grid is; `None` if they have no common
    refinement.
    """
    if not (whole.is_static and other.is_static and whole.size == other.size):
        return None
    uses = [(grid, tuple(range(grid.rank))) for grid in (whole, other)]
    found = common_refinements(uses)
    fine = [refinement.fine if refinement else use[0] for use, refinement in found.items()]
    if fine[0] != fine[1]:
        return None
    of_whole, of_other = (found[use] for use in uses)
    named: dict[Axis, Axis] = {}
    for axis, size in enumerate(whole.sizes_along(range(whole.rank))):
        for pre, count, new in of_whole.axes[axis] if of_whole else ((1, size, axis),):
            named[new] = axis if count == size else SubAxis(axis, pre, count)
    return {
        axis: tuple(named[new] for new in (of_other.refined_axes((axis,)) if of_other else (axis,)))
        for axis in range(other.rank)
    }
