"""Bring the tensors of a function on as few grids as possible, before its stages are found.

* @e(), the empty grid: nothing is split on it, so it becomes the function's grid.
* @one(), of one device: a part of the function's grid.
* @four(4) beside @two(2): devices are numbered from 0 on each grid, so @two is the first two, and
  becomes a part of @four. Where the first devices are no box (three of 2x2), both become a line of
  devices and a part of it, and their axes sub-axes of the line. Where an axis of a manual
  computation is a part of another grid's (2x2 beside 2x4), both become parts of a grid that has
  both (2x2x2).
* @line(4) beside a part of @square(2x2), of the same devices: a tensor split along axis 0 of @line
  is split along axes 0 and 1 of @square.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise

from shard_dialect.errors import ShardError, as_symbol
from shard_dialect.ir.bindings import ir
from shard_dialect.ir.building.build import replace_op
from shard_dialect.ir.diagnostics import error_at, located
from shard_dialect.ir.function import (
    BOUNDARY,
    boundary,
    form_of,
    functions_of,
    name_of,
    set_boundary,
)
from shard_dialect.ir.grids import OPS as GRIDS
from shard_dialect.ir.grids import (
    fresh_name,
    has_unlike_grids,
    sub_clusters_of,
    write_cluster,
    write_sub_cluster,
)
from shard_dialect.ir.mesh import annotation_ops
from shard_dialect.ir.mesh.annotation_ops import BOUNDARY_OPS, computations_around
from shard_dialect.ir.mesh.attributes import (
    BLOCKS,
    MANUAL,
    SHARDING,
    SHARDINGS,
    STAGES,
    ints,
    symbol,
)
from shard_dialect.ir.mesh.mesh_dialect import TRANSFER
from shard_dialect.ir.mesh.notation import write_axes
from shard_dialect.ir.mesh.sharding_attributes import Shardings, has_stages, rank_of, stages_named
from shard_dialect.ir.sdy.syntax import is_maximal
from shard_dialect.ir.shard.local_collectives import is_between_devices
from shard_dialect.ir.walk import body, operations, walk
from shard_dialect.model import Annotation, Axes, Axis, Grid, SubCluster
from shard_dialect.model.grid import SubAxis, follows
from shard_dialect.model.grid_refinement import common_refinements
from shard_dialect.model.sharding import Sizes
from shard_dialect.passes.framework.base import needs

PERMUTE = "mesh.collective_permute"


def grids_in(function: ir.Operation, shardings: Shardings) -> Iterator[str]:
    """Yield the names of the grids in a function's annotations and manual computations."""
    for annotation in annotations_in(function, shardings):
        yield annotation.grid
    for _, name, _ in annotated_loops(function, shardings):
        yield name
    for computation in annotation_ops.manual_computations(function):
        yield annotation_ops.grid_of(computation, shardings).name
    for op in walk(function):
        transfer = transfer_of(op)
        if transfer is not None:
            yield transfer[1]


def annotations_in(function: ir.Operation, shardings: Shardings) -> Iterator[Annotation]:
    """Yield the annotations of a function's values."""
    for key in BOUNDARY:
        for annotation in boundary_annotations(function, key, shardings):
            if annotation is not None:
                yield annotation
    for op in (function, *walk(function)):
        with located(op):
            yield from shardings.of_results(op).values()
            for block in shardings.of_blocks(op):
                yield from block.values()
            annotated = annotation_ops.read_annotation(op, shardings)
            if annotated is not None:
                yield annotated.annotation


def annotated_loops(
    function: ir.Operation, shardings: Shardings
) -> Iterator[tuple[ir.Operation, str, tuple[Axes, ...]]]:
    """Yield the ops whose loops are annotated, with the grid and the axes of each loop."""
    for op in walk(function):
        with located(op):
            loops = annotation_ops.read_loops(op, shardings)
        if loops is not None:
            yield op, *loops


def boundary_annotations(
    function: ir.Operation, key: str, shardings: Shardings
) -> list[Annotation | None]:
    """The annotation of each argument or result at a function's boundary."""
    type_ = function.attributes["function_type"].value
    types = type_.inputs if key == "arg_attrs" else type_.results
    return [
        shardings.read_annotation(entry[SHARDING], rank_of(each)) if SHARDING in entry else None
        for entry, each in zip(boundary(function, key), types, strict=True)
    ]


def transfer_of(op: ir.Operation) -> tuple[str | None, str] | None:
    """The source (if known) and target stage of an op that passes its operand on, or `None`.

    Such an op is a `mesh.transfer`, or a permutation that names a cluster and no axis, or stages.
    """
    if op.name == TRANSFER and STAGES not in op.attributes:
        return None, symbol(op.attributes["cluster"])
    is_plain = "cluster" in op.attributes and "mesh_axis" not in op.attributes
    if op.name != PERMUTE or STAGES in op.attributes or not is_plain:
        return stages_named(op)
    return None, symbol(op.attributes["cluster"])


Change = Callable[[Annotation], Annotation]
_CLUSTER = "mesh_cluster"
_FITTING = "declare grids whose sizes along axes divide each other, from the last axis on"
_OURS = ("mesh.", "shard.")
"""The dialects whose collectives name axes."""


def rewrite_annotations(function: ir.Operation, change: Change, shardings: Shardings) -> None:
    """Replace each annotation of a value of `function`, in the annotated form, by its `change`.

    The annotations of ops' loops stay (`_move_loops`).
    """
    type_ = function.attributes["function_type"].value
    for key, types in zip(BOUNDARY, (type_.inputs, type_.results), strict=True):
        entries = boundary(function, key)
        for entry, each in zip(entries, types, strict=True):
            if SHARDING in entry:
                annotation = shardings.read_annotation(entry[SHARDING], rank_of(each))
                entry[SHARDING] = shardings.write(change(annotation))
        set_boundary(function, key, entries)
    for op in (function, *walk(function)):
        with located(op):
            _rewrite_op(op, change, shardings)


def _rewrite_op(op: ir.Operation, change: Change, shardings: Shardings) -> None:
    def listed(annotations: Mapping[int, Annotation], count: int) -> ir.ArrayAttr:
        return ir.ArrayAttr.get(
            [
                shardings.write(change(annotations[at])) if at in annotations else ir.UnitAttr.get()
                for at in range(count)
            ]
        )

    if SHARDINGS in op.attributes:
        op.attributes[SHARDINGS] = listed(shardings.of_results(op), len(op.results))
    if BLOCKS in op.attributes:
        counts = [len(block.arguments) for region in op.regions for block in region.blocks]
        lists = zip(shardings.of_blocks(op), counts, strict=False)
        op.attributes[BLOCKS] = ir.ArrayAttr.get([listed(*each) for each in lists])
    annotated = annotation_ops.read_annotation(op, shardings)
    if annotated is not None:
        annotation_ops.write_annotation(op, change(annotated.annotation), shardings)


def merge_equal_grids(module: ir.Operation, shardings: Shardings) -> None:
    """Let all annotations that name a grid equal to an earlier one name that one.

    Grids are equal if they have the same shape, names of axes and order of the devices. A grid of
    which parts are declared keeps its name.
    """
    parts = sub_clusters_of(module)
    divided = {part.of for part in parts.values()}
    first: dict[object, str] = {}
    renamed = {}
    for name, grid in shardings.grids.items():
        if name not in parts and grid.rank:
            kept = first.setdefault((grid.shape, grid.axes, grid.device_ids), name)
            if kept != name and name not in divided:
                renamed[name] = kept

    def change(annotation: Annotation) -> Annotation:
        if annotation.grid not in renamed:
            return annotation
        sharding = replace(annotation.sharding, grid=renamed[annotation.grid])
        return replace(annotation, sharding=sharding)

    for function in functions_of(module) if renamed else ():
        _refuse_transfers(function, renamed)
        rewrite_annotations(function, change, shardings)
        if _CLUSTER in function.attributes:
            name = symbol(function.attributes[_CLUSTER])
            kept = renamed.get(name, name)
            function.attributes[_CLUSTER] = ir.FlatSymbolRefAttr.get(kept)


def _refuse_transfers(function: ir.Operation, renamed: Mapping[str, str]) -> None:
    """Raise where a tensor is passed on to a grid of which another one has the same devices.

    In the RFC's slides such grids are devices of their own. Here devices are numbered from 0 on
    each grid, so nothing would move, and half of the devices that were meant would have no part.
    """
    for op in walk(function):
        target = transfer_of(op)
        if target is None or target[1] not in {*renamed, *renamed.values()}:
            continue
        others = [a for a, b in renamed.items() if b == target[1]]
        other = renamed.get(target[1]) or others[0]
        raise error_at(
            op.location,
            f"'{op.name}' op passes a tensor on to {as_symbol(target[1])}, which has the same "
            f"devices as {as_symbol(other)}: declare one grid of all devices, and the two as its "
            "parts, by 'mesh.sub_cluster'",
        )


@needs(grid=True, fact=has_unlike_grids)
def settle_grids(module: ir.Operation) -> None:
    """Bring the tensors of each annotated function on as few grids as possible.

    Raises a located `ShardError` for a grid of one device that the function's grid has not.
    """
    shardings = Shardings.of(module)
    merge_equal_grids(module, shardings)
    grids = shardings.grids.values()
    is_one_size = len({grid.size for grid in grids if grid.is_static}) < 2
    if is_one_size and all(grid.rank for grid in grids) and not sub_clusters_of(module):
        return
    for functions in _calling_each_other(module):
        with located(functions[0]):
            shardings = Shardings.of(module)
            names = set(_grids_of(functions, shardings))
            for function in functions:
                _leave_empty_grids(function, names, shardings)
            _smaller_to_parts(functions, module, shardings)
            shardings = Shardings.of(module)
            _maximal_to_parts(set(_grids_of(functions, shardings)), module, shardings)
            shardings = Shardings.of(module)
            names = set(_grids_of(functions, shardings))
            parts = [part for name, part in sub_clusters_of(module).items() if name in names]
            if parts:
                whole = shardings.grid(parts[0].of)
                others = names - {part.name for part in parts} - {whole.name}
                for function in functions:
                    _move_to(whole, others, function, shardings)


def _calling_each_other(module: ir.Operation) -> list[list[ir.Operation]]:
    """The annotated functions of the module; those that call each other are in one list.

    Those of stages are left out: `stages-to-grid` has settled their grid.
    """
    functions = {name_of(op): op for op in functions_of(module)}
    of: dict[str, list[str]] = {name: [name] for name in functions}
    for name, function in functions.items():
        for op in walk(function):
            callee = op.attributes["callee"].value if op.name == "func.call" else name
            if callee in of and of[callee] is not of[name]:
                of[name] += of[callee]
                of |= dict.fromkeys(of[callee], of[name])
    lists = {id(each): each for each in of.values()}.values()

    def is_open(function: ir.Operation) -> bool:
        return form_of(function) == "annotated" and not has_stages(function)

    annotated = [
        [each for each in map(functions.__getitem__, names) if is_open(each)] for names in lists
    ]
    return [each for each in annotated if each]


def _leave_empty_grids(
    function: ir.Operation, names: Collection[str], shardings: Shardings
) -> None:
    """Move annotations on empty grids to the first other of these, or of the module."""
    empty = {each for each in names if _is_empty(shardings.grid(each))}
    used = [grid for name, grid in shardings.grids.items() if name in names and grid.rank]
    others = used or [grid for grid in shardings.grids.values() if grid.rank]
    if not empty or not others:
        return
    for op in walk(function):
        with located(op):
            annotated = annotation_ops.read_annotation(op, shardings)
        if annotated and annotated.annotation.grid in empty and _is_open(annotated.annotation):
            replace_op(op, op.operands[0])

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


def _smaller_to_parts(
    functions: Sequence[ir.Operation], module: ir.Operation, shardings: Shardings
) -> None:
    """Let the devices of a smaller grid be the first ones of the largest, as a part of it.

    Where these are no box of the largest grid's devices, or an axis is none of its (sub-)axes,
    annotations move to a line of all devices and to parts of that; where manual axes, or those of
    ops' loops, are none of its axes, to a grid that has them, if there is one.
    """
    parts = sub_clusters_of(module)
    grids = [shardings.grid(name) for name in _grids_of(functions, shardings)]
    used = [grid for grid in grids if grid.rank and grid.is_static and grid.name not in parts]
    sizes = {grid.size for grid in used}
    if len(sizes) < 2 or len(used) < len([grid for grid in grids if grid.rank]):
        return
    for grid in used:
        if grid.device_ids:
            raise ShardError(
                f"function {as_symbol(name_of(functions[0]))} has tensors on grids of "
                f"{min(sizes)} and of {max(sizes)} devices, and {grid} has an order of its own: "
                "declare parts of one grid, by 'mesh.sub_cluster'"
            )
    whole = _grid_of_all(functions, used, module, shardings)
    names = {whole.name, *shardings.grids}
    of_size = {whole.size: whole.name}
    with ir.InsertionPoint(functions[0]), functions[0].location:
        for size in sorted(sizes - {whole.size}):
            of_size[size] = fresh_name(f"first_{size}", names)
            box = _first_devices(whole, size)
            assert box is not None  # of a line any number of devices is a box
            sizes_along, none = box.sizes_along(range(box.rank)), (0,) * whole.rank
            write_sub_cluster(SubCluster(of_size[size], whole.name, none, sizes_along))
    moved = Shardings.of(module)

    def target_of(grid: Grid) -> Grid:
        return moved.grid(of_size[grid.size]) if grid.rank else grid

    def change(annotation: Annotation) -> Annotation:
        grid = shardings.grid(annotation.grid)
        target = target_of(grid)
        if target.name == grid.name:
            return annotation
        return _on(annotation, target, lambda axis: _axes_along(target, axis, grid) or ())

    for function in functions:
        _move_manual(function, change, target_of, shardings, moved)
        rewrite_annotations(function, change, moved)
        if _CLUSTER in function.attributes:
            grid = shardings.grid(annotation_ops.cluster_name(function))
            has_loops = any(True for _ in annotated_loops(function, shardings))
            target = target_of(grid) if has_loops else whole
            _move_loops(function, target, partial(_axes_along, target, grid=grid), shardings)


def _grid_of_all(
    functions: Sequence[ir.Operation],
    used: Sequence[Grid],
    module: ir.Operation,
    shardings: Shardings,
) -> Grid:
    """One of the largest grids, or a new one, of which the others can be parts."""
    axes = _axes_used(functions, used, shardings)
    full = _full_axes(functions, shardings)
    count = max(grid.size for grid in used)
    largest = [grid for grid in used if grid.size == count]
    largest.sort(key=lambda grid: grid.name not in full)
    holding = [whole for whole in largest if _holds(whole, used, axes)]
    for whole in holding:
        if _holds_full(whole, used, full):
            return whole
    for kept in (axes, full) if full else ():
        shape = _refined(used, kept)
        if shape and _holds(Grid("refined", shape), used, axes):
            return _new_grid(shape, module, shardings)
    return holding[0] if holding else _new_grid((count,), module, shardings)


def _grids_of(functions: Iterable[ir.Operation], shardings: Shardings) -> list[str]:
    """The names of the grids in the functions' annotations, each once."""
    return list(dict.fromkeys(name for each in functions for name in grids_in(each, shardings)))


def _axes_used(
    functions: Sequence[ir.Operation], grids: Sequence[Grid], shardings: Shardings
) -> Mapping[str, set[Axis]]:
    """The (sub-)axes of each grid that annotations and manual computations use."""
    found: dict[str, set[Axis]] = {grid.name: set() for grid in grids}
    for function in functions:
        boundaries = (
            annotation_ops.boundary_of(op, shardings).annotation
            for op in walk(function)
            if op.name in BOUNDARY_OPS
        )
        for each in (*annotations_in(function, shardings), *boundaries):
            if each.grid in found:
                found[each.grid].update(each.sharding.axes, each.replicated)
    for name, full in _full_axes(functions, shardings).items():
        found.get(name, set()).update(full)
    return found


def _full_axes(functions: Iterable[ir.Operation], shardings: Shardings) -> dict[str, set[Axis]]:
    """The axes of each grid that have to stay full ones: manual ones, and those of ops' loops."""
    found: dict[str, set[Axis]] = {}
    for function in functions:
        for computation in annotation_ops.manual_computations(function):
            name = annotation_ops.grid_of(computation, shardings).name
            found.setdefault(name, set()).update(ints(computation.attributes[MANUAL]))
        for _, name, loops in annotated_loops(function, shardings):
            found.setdefault(name, set()).update(*loops)
    return found


def _holds(whole: Grid, grids: Sequence[Grid], axes: Mapping[str, set[Axis]]) -> bool:
    """Whether each grid is `whole` or a box of its devices, and its used axes are of that box."""
    boxes = {grid.size: _first_devices(whole, grid.size) for grid in grids}
    return all(
        (box := boxes[grid.size]) is not None
        and all(_axes_along(box, axis, grid) is not None for axis in axes[grid.name])
        for grid in grids
    )


def _holds_full(whole: Grid, grids: Sequence[Grid], axes: Mapping[str, Collection[Axis]]) -> bool:
    """Whether these axes of each grid are full axes of its box of `whole`."""
    boxes = {grid.name: _first_devices(whole, grid.size) for grid in grids}
    return all(
        (box := boxes[grid.name]) is not None
        and all(
            isinstance(_as_whole(_as_part(part, box), box), int)
            for axis in axes.get(grid.name, ())
            for part in _axes_along(box, axis, grid) or ()
        )
        for grid in grids
    )


def _refined(grids: Sequence[Grid], axes: Mapping[str, Collection[Axis]]) -> tuple[int, ...] | None:
    """The shape of a grid that has these axes of the grids as full axes, and the grids as boxes.

    `None` if there is none, as of 2x3 and 3x2.

    >>> _refined([Grid("a", (2, 4)), Grid("b", (2, 2))], {"a": {0}, "b": {0}})
    (2, 2, 2)
    """
    used = [_strides(axis, grid) for grid in grids for axis in axes.get(grid.name, ())]
    ends = sorted({1, max(grid.size for grid in grids), *(end for each in used for end in each)})
    if any(high % low for low, high in pairwise(ends)):
        return None
    shape = tuple(high // low for low, high in reversed([*pairwise(ends)]))
    refined = Grid("refined", shape)
    has_boxes = all(_first_devices(refined, grid.size) is not None for grid in grids)
    return shape if has_boxes else None


def _strides(axis: Axis, grid: Grid) -> tuple[int, int]:
    """How far devices at neighbouring positions along an axis are apart, and how many it spans."""
    within = _as_part(axis, grid)
    minor = grid.axes_size(range(within.axis + 1, grid.rank))
    low = minor * grid.axes_size((within.axis,)) // (within.pre * within.size)
    return low, low * within.size


def _first_devices(whole: Grid, count: int) -> Grid | None:
    """The first `count` devices as a box, with the rank of `whole`; `None` if they are none.

    >>> [each and each.shape for each in (_first_devices(Grid("g", (2, 4)), n) for n in (2, 4, 6))]
    [(1, 2), (1, 4), None]
    """
    shape, left = [], count
    for size in reversed(whole.sizes_along(range(whole.rank))):
        shape.append(min(size, left))
        if left % shape[-1]:
            return None
        left //= shape[-1]
    return replace(whole, shape=tuple(reversed(shape))) if left == 1 else None


def _axes_along(box: Grid, axis: Axis, grid: Grid) -> Axes | None:
    """The (sub-)axes of `box` that an axis is of another grid with the same devices.

    Both number their devices alike; an axis counts every `stride`-th of them. `None` if the axes of
    the box count others.

    >>> box = Grid("box", (2, 4))
    >>> [*map(str, _axes_along(box, 0, Grid("line", (8,))))]
    ['0:(1)2', '1:(1)4']
    >>> [*map(str, _axes_along(box, 1, Grid("other", (4, 2))))]
    ['1:(2)2']
    """
    low, high = _strides(axis, grid)
    found: list[Axis] = []
    stride = 1
    for number, size in reversed([*enumerate(box.sizes_along(range(box.rank)))]):
        end = stride * size
        # The axis spans the strides from `low` to `high`, that of the box from `stride` to `end`.
        first, last = max(low, stride), min(high, end)
        if first < last:
            if last % first or end % last or first % stride:
                return None
            found.insert(0, SubAxis(number, end // last, last // first))
        stride = end
    return tuple(found)


def _move_manual(
    function: ir.Operation,
    change: Change,
    target_of: Callable[[Grid], Grid],
    shardings: Shardings,
    moved: Shardings,
) -> None:
    """Let the boundaries of manual computations be on the grids that their tensors move to.

    Raises a located `ShardError` where one is only a part of an axis there.
    """
    for computation in annotation_ops.manual_computations(function):
        grid = annotation_ops.grid_of(computation, shardings)
        target = target_of(grid)
        if target.name == grid.name:
            continue
        manual = ints(computation.attributes[MANUAL])
        along = [new for axis in manual for new in _axes_along(target, axis, grid) or ()]
        axes = [_as_whole(_as_part(axis, target), target) for axis in along]
        inside = [op for op in walk(computation) if next(computations_around(op)) == computation]
        is_manual = f"this manual computation is along axes {grid.axes_text(manual)} of {grid}, "
        if not all(isinstance(axis, int) for axis in axes):
            raise error_at(
                computation.location,
                f"{is_manual}which become {target.axes_text(axes)} of {target}: {_FITTING}",
            )
        if any(is_between_devices(op) and op.name.startswith(_OURS) for op in inside):
            raise error_at(
                computation.location,
                f"{is_manual}which becomes {target}, and an op in it names axes: declare "
                f"{as_symbol(grid.name)} as a part, by 'mesh.sub_cluster'",
            )
        for op in inside:
            if op.name in BOUNDARY_OPS:
                boundary_before = annotation_ops.boundary_of(op, shardings)
                op.attributes["sharding"] = moved.write(change(boundary_before.annotation))
                annotation_ops.write_manual_axes(op, "manual_axes", tuple(axes))
        annotation_ops.write_manual_axes(computation, MANUAL, tuple(axes))


def _move_loops(
    function: ir.Operation,
    target: Grid,
    axes_of: Callable[[Axis], Axes | None],
    shardings: Shardings,
) -> None:
    """Let the function's cluster be `target`, and the annotations of ops' loops be on it.

    `axes_of` are its (sub-)axes for each axis of the cluster before. Raises a located `ShardError`
    where one is only a part of an axis.
    """
    loops_before = list(annotated_loops(function, shardings))
    function.attributes[_CLUSTER] = ir.FlatSymbolRefAttr.get(target.name)
    for op, name, loops in loops_before:
        parts = [[part for axis in axes for part in axes_of(axis) or ()] for axes in loops]
        moved = [[_as_whole(_as_part(part, target), target) for part in each] for each in parts]
        written = ir.ArrayAttr.get(list(map(write_axes, moved)))
        if not all(isinstance(axis, int) for axes in moved for axis in axes):
            raise error_at(
                op.location,
                f"'{op.name}' op has {annotation_ops.LOOPS} = "
                f"{op.attributes[annotation_ops.LOOPS]} on {shardings.grid(name)}, which become "
                f"{written} of {target}: {_FITTING}",
            )
        op.attributes[annotation_ops.LOOPS] = written


def _as_part(axis: Axis, grid: Grid) -> SubAxis:
    return axis if isinstance(axis, SubAxis) else SubAxis(axis, 1, grid.axes_size((axis,)))


def _as_whole(axis: SubAxis, grid: Grid) -> Axis:
    return axis.axis if axis.size == grid.axes_size((axis.axis,)) else axis


def _on(annotation: Annotation, grid: Grid, moved: Callable[[Axis], Axes]) -> Annotation:
    """The annotation on another grid, with the axes that each of its own becomes there."""

    def each(axes: Axes) -> Axes:
        found: list[SubAxis] = []
        for new in (_as_part(new, grid) for axis in axes for new in moved(axis)):
            if found and follows(found[-1], new):
                before = found.pop()
                found.append(SubAxis(new.axis, before.pre, before.size * new.size))
            else:
                found.append(new)
        return tuple(_as_whole(axis, grid) for axis in found)

    def of_split(sizes: Sequence[Sizes]) -> tuple[Sizes, ...]:
        """Halos or offsets; an axis of one device is none on the other grid, and has no shards."""
        return tuple(each if axes else () for each, axes in zip(sizes, split, strict=bool(sizes)))

    sharding = annotation.sharding
    split = tuple(map(each, sharding.split_axes))
    sharding = replace(
        sharding,
        grid=grid.name,
        split_axes=split,
        partial=each(sharding.partial),
        halos=of_split(sharding.halos),
        offsets=of_split(sharding.offsets),
    )
    return replace(annotation, sharding=sharding, replicated=each(annotation.replicated))


def _maximal_to_parts(names: Collection[str], module: ir.Operation, shardings: Shardings) -> None:
    """Declare the grids of one device that a function uses as parts of the other one it uses.

    Without one they are parts of the module's first grid that has these devices, or of a new one.
    """
    maximal = [each for name in names if is_maximal(each := shardings.grid(name))]
    if not maximal:
        return
    count = 1 + max(device for grid in maximal for device in grid.device_ids)
    parts = sub_clusters_of(module)
    used = sorted(
        (g for g in map(shardings.grid, names) if g.rank and g.name not in parts),
        key=lambda grid: grid.name,
    )
    declared = [
        grid
        for grid in shardings.grids.values()
        if grid.rank and grid.is_static and grid.size >= count
    ]
    whole = next(iter([*used, *declared]), None) or _new_grid((count,), module, shardings)
    for op in operations(body(module)):
        if op.name not in GRIDS or name_of(op) not in {grid.name for grid in maximal}:
            continue
        grid = shardings.grid(name_of(op))
        (device,) = grid.device_ids
        if device >= whole.size:
            raise error_at(op.location, f"grid {grid} is device {device}, which is not in {whole}")
        with ir.InsertionPoint(op), op.location:
            first, ones = whole.coordinates(device), (1,) * whole.rank
            write_sub_cluster(SubCluster(grid.name, whole.name, first, ones))
        op.erase()


def _new_grid(shape: Sequence[int], module: ir.Operation, shardings: Shardings) -> Grid:
    """Declare a grid of this shape."""
    grid = Grid(fresh_name("devices", set(shardings.grids)), tuple(shape))
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
        used = (*annotation.sharding.axes, *annotation.replicated)
        if any(isinstance(axis, SubAxis) for axis in used):
            return annotation
        return _on(annotation, whole, lambda axis: axes[axis])

    if any(axes_of.values()):
        rewrite_annotations(function, change, shardings)
    if _CLUSTER in function.attributes:
        axes = axes_of.get(annotation_ops.cluster_name(function))
        if axes is not None:
            _move_loops(function, whole, axes.get, shardings)


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
