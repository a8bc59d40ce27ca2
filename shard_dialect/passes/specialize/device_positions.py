"""Replace ops that ask for a device's position or the grid's shape by arithmetic.

%n:2 = shard.grid_shape @g : index, index          constants
%i:2 = shard.process_multi_index on @g : ...       of the device's rank, row-major
%b:2 = shard.neighbors_linear_indices on @g[%i#0, %i#1] split_axes = [1] : index, index
                                                   -1 where there is no neighbor
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence

from shard_dialect.ir.bindings import ir
from shard_dialect.ir.building import build
from shard_dialect.ir.diagnostics import located
from shard_dialect.ir.grids import grids_of
from shard_dialect.ir.mesh.attributes import symbol
from shard_dialect.ir.walk import walk
from shard_dialect.model import Grid

_GRID_SHAPE = "shard.grid_shape"


def fold_grid_shapes(module: ir.Operation) -> None:
    """Replace `shard.grid_shape` ops on grids of known shape by constants."""
    _replace(module, {_GRID_SHAPE: _sizes})


def to_arithmetic(module: ir.Operation) -> None:
    """Replace these ops by arithmetic on `shard.process_linear_index`, in place."""
    _replace(
        module,
        {
            _GRID_SHAPE: _sizes,
            "shard.process_multi_index": _position,
            "shard.neighbors_linear_indices": _neighbors,
        },
    )


_Replacement = Callable[[ir.Operation, Grid], list[ir.Value]]


def _replace(module: ir.Operation, by: dict[str, _Replacement]) -> None:
    ops = [op for op in walk(module) if op.name in by]
    grids = grids_of(module) if ops else {}
    for op in ops:
        grid = grids[symbol(op.attributes["grid"])]
        if not grid.is_static:
            continue
        with located(op), ir.InsertionPoint(op), op.location:
            values = by[op.name](op, grid)
        for old, new in zip(op.results, values, strict=True):
            old.replace_all_uses_with(new)
        op.erase()


def _axes(op: ir.Operation, grid: Grid) -> Sequence[int]:
    """The axes that an op names; all axes of the grid if it names none."""
    axes = tuple(op.attributes["axes"]) if "axes" in op.attributes else ()
    return axes or range(grid.rank)


def _sizes(op: ir.Operation, grid: Grid) -> list[ir.Value]:
    return [_number(grid.axes_size((axis,))) for axis in _axes(op, grid)]


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
    table = ir.DenseElementsAttr.get(array("q", numbers), type=kind)
    constant = build.create("arith.constant", [table.type], [], {"value": table}).results
    return build.create("tensor.extract", [kind], [*constant, index]).results[0]


def _digit(position: ir.Value, grid: Grid, axis: int) -> ir.Value:
    """The index along an axis of the device at this position."""
    position = _arith("divui", position, _number(grid.axes_size(range(axis + 1, grid.rank))))
    return _arith("remui", position, _number(grid.axes_size((axis,))))


def _neighbors(op: ir.Operation, grid: Grid) -> list[ir.Value]:
    """The ranks of the previous and the next device in the group of the one at the coordinates."""
    coordinates = list(op.operands)
    axes = tuple(op.attributes["split_axes"])
    count = grid.axes_size(axes)
    position = _linear([coordinates[axis] for axis in axes], grid.sizes_along(axes))
    one, none = _number(1), _number(-1)
    ranks = []
    for other, is_one in (
        (_arith("subi", position, one), _compare("sge", position, one)),
        (_arith("addi", position, one), _compare("slt", position, _number(count - 1))),
    ):
        neighbor = list(coordinates)
        for number, axis in enumerate(axes):
            below = grid.axes_size(axes[number + 1 :])
            digit = _arith("divsi", other, _number(below))
            neighbor[axis] = _arith("remsi", digit, _number(grid.axes_size((axis,))))
        rank = _linear(neighbor, grid.sizes_along(range(grid.rank)))
        if grid.device_ids:
            rank = _looked_up(grid.device_ids, rank)
        ranks.append(build.create("arith.select", [rank.type], [is_one, rank, none]).results[0])
    return ranks


def _linear(positions: Sequence[ir.Value], sizes: Sequence[int]) -> ir.Value:
    """The row-major index of `positions` in an array of `sizes`."""
    index = _number(0)
    for position, size in zip(positions, sizes, strict=True):
        index = _arith("addi", _arith("muli", index, _number(size)), position)
    return index


def _number(value: int) -> ir.Value:
    return build.scalar(ir.IntegerAttr.get(ir.IndexType.get(), value)).results[0]


def _arith(name: str, *operands: ir.Value) -> ir.Value:
    return build.create(f"arith.{name}", [ir.IndexType.get()], operands).results[0]


def _compare(predicate_name: str, *operands: ir.Value) -> ir.Value:
    bit, wide = ir.IntegerType.get_signless(1), ir.IntegerType.get_signless(64)
    predicate = {"predicate": ir.IntegerAttr.get(wide, _PREDICATES[predicate_name])}
    return build.create("arith.cmpi", [bit], operands, predicate).results[0]


_PREDICATES = {"slt": 2, "sge": 5}
"""The values of arith's enumeration of integer predicates."""
