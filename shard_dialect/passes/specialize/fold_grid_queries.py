"""Fold grid sizes, device positions, and operands of collectives to constants and arithmetic.

`fold-grid-sizes` and `fold-device-positions` replace ops that ask for a device's position, or for
sizes, by arithmetic.

    %n:2 = shard.grid_shape @g : index, index          constants
    %n = "mesh.size"() {axis = 1 : index} : () -> index
    %m = shard.shard_shape dims = [16] sharding = %s device = [%d] : index
                                                       arithmetic of the device's index
    %b:2 = shard.neighbors_linear_indices on @g[%i#0, %i#1] split_axes = [1] : index, index
                                                       -1 where there is no neighbor
    %i:2 = shard.process_multi_index on @g : ...       of the device's rank, row-major
    %i = "mesh.idx"() {axis = 1 : index} : () -> index

The first four give the same on all devices, so they may stand in any form. The last two tell
devices apart, which only the local form does.

`fold-collective-operands` writes constant operands of collectives into their attributes: roots,
partners, halo sizes.

    %c1 = arith.constant 1 : index
    %1 = shard.broadcast %0 on @g grid_axes = [0] root = [%c1] : ...

becomes

    %1 = shard.broadcast %0 on @g grid_axes = [0] root = [1] : ...

The numbers may be computed from constants. Numbers that differ between runs stay operands.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from shard_dialect.ir.bindings import ir
from shard_dialect.ir.building import build
from shard_dialect.ir.building.build import arith, create, drop_unused, replace_op
from shard_dialect.ir.diagnostics import located
from shard_dialect.ir.grids import grids_of
from shard_dialect.ir.mesh.annotation_ops import grid_named_by
from shard_dialect.ir.mesh.attributes import DYNAMIC
from shard_dialect.ir.mesh.grid_queries import GRID_QUERIES, queried_axes
from shard_dialect.ir.reading.constants import constant_integer
from shard_dialect.ir.shard.local_collectives import NUMBER_LISTS
from shard_dialect.ir.shard.sharding_ops import Layout, grid_name, sharding_behind, sizes_in
from shard_dialect.ir.walk import walk
from shard_dialect.model import Grid, ShardingError
from shard_dialect.model.sharding import Sizes
from shard_dialect.passes.framework.base import UNCHANGED, Outcome, needs

_SHARD_SHAPE = "shard.shard_shape"
_SHARDINGS = ("shard.get_sharding", "shard.sharding")
"""Ops that nothing needs once their sharding has been read; users before their operands."""


_SIZES = (
    "mesh.size",
    "shard.grid_shape",
    "shard.neighbors_linear_indices",
    "shard.shard_shape",
)
_POSITIONS = ("mesh.idx", "shard.process_multi_index")


@needs(ops=_SIZES)
def fold_grid_sizes(module: ir.Operation) -> None:
    """Replace the ops that give the same on all devices, on grids of known shape."""
    _replace(module, _SAME_ON_ALL)


@needs(ops=(*_SIZES, *_POSITIONS))
def fold_device_positions(module: ir.Operation) -> None:
    """Replace ops that tell a device's position by arithmetic on `shard.process_linear_index`."""
    _replace(module, {**_SAME_ON_ALL, **_OF_THE_DEVICE})


_Replacement = Callable[[ir.Operation, Grid], list[ir.Value]]


def _replace(module: ir.Operation, by: Mapping[str, _Replacement]) -> None:
    ops = [op for op in walk(module) if op.name in by]
    grids = grids_of(module) if ops else {}
    names = [op.name for op in ops]
    for op in ops:
        with located(op):
            grid = grids[_grid_of(op)]
            if not grid.is_static:
                continue
            with ir.InsertionPoint(op), op.location:
                values = by[op.name](op, grid)
        replace_op(op, *values)
    if any(name == _SHARD_SHAPE for name in names):
        _drop_shardings(module)


def _grid_of(op: ir.Operation) -> str:
    """The name of the grid that an op asks about."""
    if op.name in GRID_QUERIES:
        return grid_named_by(op)
    return grid_name(_sharding_op(op) if op.name == _SHARD_SHAPE else op)


def _sharding_op(op: ir.Operation) -> ir.Operation:
    """The `shard.sharding` of a `shard.shard_shape`."""
    count, _, _ = op.attributes["operandSegmentSizes"]
    found = sharding_behind(op.operands[count])
    if found is None:
        raise ShardingError("takes a sharding that no 'shard.sharding' op makes")
    return found


def _drop_shardings(module: ir.Operation) -> None:
    """Erase the sharding ops that nothing uses any more."""
    for name in _SHARDINGS:
        drop_unused(op for op in walk(module) if op.name == name)


def _axes(op: ir.Operation, grid: Grid) -> Sequence[int]:
    """The axes that an op names; all axes of the grid if it names none."""
    axes = tuple(op.attributes["axes"]) if "axes" in op.attributes else ()
    return axes or range(grid.rank)


def _sizes(op: ir.Operation, grid: Grid) -> list[ir.Value]:
    return [build.index(grid.axes_size((axis,))) for axis in _axes(op, grid)]


def _position(op: ir.Operation, grid: Grid) -> list[ir.Value]:
    name = {"grid": op.attributes["grid"]}
    (rank,) = build.create("shard.process_linear_index", [ir.IndexType.get()], [], name).results
    if grid.device_ids:
        ranks = range(grid.size)
        position = _looked_up(sorted(ranks, key=lambda each: grid.device_ids[each]), rank)
    else:
        position = rank
    return [_digit(position, grid, axis) for axis in _axes(op, grid)]


def _looked_up(numbers: Sequence[int], index: ir.Value) -> ir.Value:
    """The number at `index`."""
    kind = ir.IndexType.get()
    table = build.scalar(build.dense(numbers, kind))
    return build.create_value("tensor.extract", kind, [table, index])


def _digit(position: ir.Value, grid: Grid, axis: int) -> ir.Value:
    """The index along an axis of the device at this position."""
    position = arith("divui", position, build.index(grid.axes_size(range(axis + 1, grid.rank))))
    return arith("remui", position, build.index(grid.axes_size((axis,))))


def _group_size(op: ir.Operation, grid: Grid) -> list[ir.Value]:
    return [build.index(grid.axes_size(queried_axes(op, grid)))]


def _index(op: ir.Operation, grid: Grid) -> list[ir.Value]:
    axes = queried_axes(op, grid)
    name = {"grid": ir.FlatSymbolRefAttr.get(grid.name)}
    (rank,) = build.create("shard.process_linear_index", [ir.IndexType.get()], [], name).results
    return [_linear([_digit(rank, grid, axis) for axis in axes], grid.sizes_along(axes))]


def _shard_shape(op: ir.Operation, grid: Grid) -> list[ir.Value]:
    """The sizes of a device's shard, without halos and padding."""
    for_dims, _, _ = op.attributes["operandSegmentSizes"]
    operands = list(op.operands)
    dims = _numbers(sizes_in(op, "dims"), operands[:for_dims])
    device = _numbers(sizes_in(op, "device"), operands[for_dims + 1 :])
    sharding_op = _sharding_op(op)
    layout = Layout.of(sharding_op)
    offsets = _offsets(layout, grid, list(sharding_op.operands))
    sizes = []
    for dim, size in enumerate(dims):
        axes = layout.split[dim] if dim < len(layout.split) else ()
        position = _linear([device[axis] for axis in axes], grid.sizes_along(axes))
        if dim in offsets:
            sizes.append(_between(offsets[dim], position))
        elif axes:
            sizes.append(_of_equal_shards(size, position, grid.axes_size(axes)))
        else:
            sizes.append(size)
    return sizes


def _numbers(sizes: Sizes, values: Sequence[ir.Value]) -> list[ir.Value]:
    """A value for each size, those of unknown sizes from `values`."""
    rest = iter(values)
    return [next(rest) if size is None else build.index(size) for size in sizes]


def _offsets(layout: Layout, grid: Grid, values: list[ir.Value]) -> dict[int, list[ir.Value]]:
    """The values of the offsets of each dimension that has some."""
    unknown = sum(size is None for size in layout.offsets)
    rest = iter([build.to_index(value) for value in values[:unknown]])
    return {
        dim: [next(rest) if size is None else build.index(size) for size in sizes]
        for dim, sizes in layout.offsets_by_dim(grid)
        if sizes
    }


def _between(offsets: Sequence[ir.Value], position: ir.Value) -> ir.Value:
    """The size of the shard at a position, which ends where the next one begins."""
    size = arith("subi", offsets[1], offsets[0])
    for number in range(1, len(offsets) - 1):
        own = arith("subi", offsets[number + 1], offsets[number])
        is_here = build.compare("eq", position, build.index(number))
        size = build.select(is_here, own, size)
    return size


def _of_equal_shards(size: ir.Value, position: ir.Value, count: int) -> ir.Value:
    """The size of the shard at a position, of `count` that are equal but for the last ones."""
    most = arith("divui", arith("addi", size, build.index(count - 1)), build.index(count))
    left = arith("subi", size, arith("minui", size, arith("muli", position, most)))
    return arith("minui", most, left)


def _neighbors(op: ir.Operation, grid: Grid) -> list[ir.Value]:
    """The ranks of the previous and the next device in the group of the one at the coordinates."""
    coordinates = list(op.operands)
    axes = tuple(op.attributes["split_axes"])
    count = grid.axes_size(axes)
    position = _linear([coordinates[axis] for axis in axes], grid.sizes_along(axes))
    one, none = build.index(1), build.index(-1)
    ranks = []
    for other, is_one in (
        (arith("subi", position, one), build.compare("sge", position, one)),
        (arith("addi", position, one), build.compare("slt", position, build.index(count - 1))),
    ):
        neighbor = list(coordinates)
        for number, axis in enumerate(axes):
            below = grid.axes_size(axes[number + 1 :])
            digit = arith("divsi", other, build.index(below))
            neighbor[axis] = arith("remsi", digit, build.index(grid.axes_size((axis,))))
        rank = _linear(neighbor, grid.sizes_along(range(grid.rank)))
        if grid.device_ids:
            rank = _looked_up(grid.device_ids, rank)
        ranks.append(build.select(is_one, rank, none))
    return ranks


def _linear(positions: Sequence[ir.Value], sizes: Sequence[int]) -> ir.Value:
    """The row-major index of `positions` in an array of `sizes`."""
    index = build.index(0)
    for position, size in zip(positions, sizes, strict=True):
        index = arith("addi", arith("muli", index, build.index(size)), position)
    return index


_SAME_ON_ALL: Mapping[str, _Replacement] = {
    "mesh.size": _group_size,
    "shard.grid_shape": _sizes,
    "shard.neighbors_linear_indices": _neighbors,
    _SHARD_SHAPE: _shard_shape,
}
_OF_THE_DEVICE: Mapping[str, _Replacement] = {
    "mesh.idx": _index,
    "shard.process_multi_index": _position,
}


@needs(ops=tuple(NUMBER_LISTS))
def fold_collective_operands(module: ir.Operation) -> Outcome:
    """Write the operands of collectives that are constants into their attributes."""
    found = [op for op in walk(module) if op.name in NUMBER_LISTS and _folded(op) is not None]
    for op in found:
        _with_attributes(op)
    return None if found else UNCHANGED


def _folded(op: ir.Operation) -> list[int] | None:
    """The list with the constants in it; `None` if there is none to write."""
    name = NUMBER_LISTS[op.name]
    values = list(op.attributes[name]) if name in op.attributes else []
    if DYNAMIC not in values:
        return None
    operands = iter(list(op.operands)[-values.count(DYNAMIC) :])
    known = [constant_integer(next(operands)) if each == DYNAMIC else each for each in values]
    # All or none: operands and the numbers that they stand for are told apart by their order.
    return None if any(each is None for each in known) else [int(each or 0) for each in known]


def _with_attributes(op: ir.Operation) -> None:
    name, values = NUMBER_LISTS[op.name], _folded(op)
    assert values is not None, "it was folded before"
    count = list(op.attributes[name]).count(DYNAMIC)
    attributes = {key: op.attributes[key] for key in op.attributes}
    attributes[name] = ir.DenseI64ArrayAttr.get(values)
    operands = list(op.operands)[:-count]
    with ir.InsertionPoint(op), op.location:
        new = create(op.name, [each.type for each in op.results], operands, attributes)
    replace_op(op, *new.results)
