"""Where a device is, and how large the grid is, as arithmetic.

%n:2 = shard.grid_shape @g : index, index          constants
%i:2 = shard.process_multi_index on @g : ...       of the device's rank, row-major
%b:2 = shard.neighbors_linear_indices on @g[%i#0, %i#1] split_axes = [1] : index, index
                                                   -1 where there is none
"""

from __future__ import annotations

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
    """Put constants in the place of the sizes of grids that are known."""
    _replace(module, {_GRID_SHAPE: _sizes})


def to_arithmetic(module: ir.Operation) -> None:
    """Leave none of these ops but `shard.process_linear_index`."""
    _replace(
        module,
        {
            _GRID_SHAPE: _sizes,
            "shard.process_multi_index": _place,
            "shard.neighbors_linear_indices": _neighbors,
        },
    )


_Made = Callable[[ir.Operation, Grid], list[ir.Value]]


def _replace(module: ir.Operation, by: dict[str, _Made]) -> None:
    found = [op for op in walk(module) if op.name in by]
    grids = grids_of(module) if found else {}
    for op in found:
        grid = grids[symbol(op.attributes["grid"])]
        if not grid.is_static:
            continue
        with located(op), ir.InsertionPoint(op), op.location:
            made = by[op.name](op, grid)
        for old, new in zip(op.results, made, strict=True):
            old.replace_all_uses_with(new)
        op.erase()


def _axes(op: ir.Operation, grid: Grid) -> Sequence[int]:
    """The axes that an op names: all, if none."""
    axes = tuple(op.attributes["axes"]) if "axes" in op.attributes else ()
    return axes or range(grid.rank)


def _sizes(op: ir.Operation, grid: Grid) -> list[ir.Value]:
    return [_number(grid.axes_size((axis,))) for axis in _axes(op, grid)]


def _place(op: ir.Operation, grid: Grid) -> list[ir.Value]:
    name = {"grid": op.attributes["grid"]}
    (rank,) = build.create("shard.process_linear_index", [ir.IndexType.get()], [], name).results
    return [_digit(rank, grid, axis) for axis in _axes(op, grid)]


def _digit(rank: ir.Value, grid: Grid, axis: int) -> ir.Value:
    """Where a device is along an axis."""
    place = _arith("divui", rank, _number(grid.axes_size(range(axis + 1, grid.rank))))
    return _arith("remui", place, _number(grid.axes_size((axis,))))


def _neighbors(op: ir.Operation, grid: Grid) -> list[ir.Value]:
    """The devices before and behind the one at the coordinates, in the order of its group."""
    coordinates = list(op.operands)
    axes = tuple(op.attributes["split_axes"])
    count = grid.axes_size(axes)
    place = _linear([coordinates[axis] for axis in axes], grid.sizes_along(axes))
    one, none = _number(1), _number(-1)
    found = []
    for other, is_one in (
        (_arith("subi", place, one), _compare("sge", place, one)),
        (_arith("addi", place, one), _compare("slt", place, _number(count - 1))),
    ):
        moved = list(coordinates)
        for number, axis in enumerate(axes):
            below = grid.axes_size(axes[number + 1 :])
            digit = _arith("divsi", other, _number(below))
            moved[axis] = _arith("remsi", digit, _number(grid.axes_size((axis,))))
        rank = _linear(moved, grid.sizes_along(range(grid.rank)))
        found.append(build.create("arith.select", [rank.type], [is_one, rank, none]).results[0])
    return found


def _linear(places: Sequence[ir.Value], sizes: Sequence[int]) -> ir.Value:
    """The number of what is at `places`, of all that there are."""
    found = _number(0)
    for place, size in zip(places, sizes, strict=True):
        found = _arith("addi", _arith("muli", found, _number(size)), place)
    return found


def _number(value: int) -> ir.Value:
    return build.scalar(ir.IntegerAttr.get(ir.IndexType.get(), value)).results[0]


def _arith(name: str, *operands: ir.Value) -> ir.Value:
    return build.create(f"arith.{name}", [ir.IndexType.get()], operands).results[0]


def _compare(how: str, *operands: ir.Value) -> ir.Value:
    bit, wide = ir.IntegerType.get_signless(1), ir.IntegerType.get_signless(64)
    predicate = {"predicate": ir.IntegerAttr.get(wide, _PREDICATES[how])}
    return build.create("arith.cmpi", [bit], operands, predicate).results[0]


_PREDICATES = {"slt": 2, "sge": 5}
"""Of arith's enumeration."""
