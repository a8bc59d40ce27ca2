"""Sizes that a program leaves open, given: those of the arguments, and of the grid.

    --specialize='shapes={4x8,8x16} grid=2x4'

    shard.grid @g(shape = ?x4)                    shard.grid @g(shape = 2x4)
    func.func @main(%x: tensor<?x8xf32>)          func.func @main(%x: tensor<4x8xf32>)

What is computed from them follows (`shapes`), and the program is one like any other.
"""

from __future__ import annotations

from dataclasses import dataclass

from shard_dialect.errors import ShardError
from shard_dialect.ir.bindings import ir
from shard_dialect.ir.diagnostics import error_at
from shard_dialect.ir.function import form_of, functions_of, name_of, refuse_form, update_type
from shard_dialect.ir.grids import OPS as GRIDS
from shard_dialect.ir.grids import read_grid, set_sizes
from shard_dialect.ir.walk import body, operations
from shard_dialect.passes.base import Pass
from shard_dialect.passes.positions import fold_grid_shapes
from shard_dialect.passes.shapes import Shape, give_shape, shape_of, spread, written


@dataclass(frozen=True)
class Specialize(Pass):
    """Give the arguments and the grid the sizes that the program leaves open."""

    name = "specialize"
    entry: str = "main"
    """The function whose arguments have `shapes`."""
    shapes: str = ""
    """The arguments' shapes, in order, as in {4x8,,16}: nothing for one to be left alone."""
    grid: str = ""
    """The shape of the grid that has unknown sizes, as in 2x4."""

    def rewrite(self, module: ir.Operation) -> None:
        if self.grid:
            _size_grid(module, _read(self.grid, "grid"))
        if self.shapes:
            _size_arguments(
                _find(module, self.entry),
                [_read(each, "shapes") if each else None for each in self.shapes.split(",")],
            )
        fold_grid_shapes(module)
        spread(module, self.entry)


def _read(text: str, option: str) -> tuple[int, ...]:
    """The sizes in `4x8`; none in `scalar`."""
    sizes = [] if text.strip() == "scalar" else text.strip().split("x")
    if not all(each.isdecimal() for each in sizes):
        raise ShardError(
            f"option '{option}' of pass 'specialize' has '{text}': "
            "expected sizes with an x between them, as in 4x8"
        )
    return tuple(map(int, sizes))


def _size_grid(module: ir.Operation, sizes: tuple[int, ...]) -> None:
    found = [op for op in operations(body(module)) if op.name in GRIDS]
    open_ = [(op, grid) for op in found if (grid := read_grid(op)) and not grid.is_static]
    if len(open_) != 1:
        names = ", ".join(f"@{grid.name}" for _, grid in open_) or "none"
        raise ShardError(f"one grid is to have the shape {written(sizes)}, of {names}")
    op, grid = open_[0]
    if not _agree(grid.shape, sizes) or 0 in sizes:
        raise error_at(op.location, f"grid {grid} cannot have the shape {written(sizes)}")
    set_sizes(op, sizes)


def _find(module: ir.Operation, name: str) -> ir.Operation:
    for handle in functions_of(module):
        if name_of(handle) == name:
            return handle
    raise ShardError(f"there is no function @{name} to specialize")


def _size_arguments(handle: ir.Operation, shapes: list[tuple[int, ...] | None]) -> None:
    if form_of(handle) != "annotated":
        raise refuse_form(handle, ": --specialize it before it is sharded")
    arguments = list(body(handle).arguments)
    if len(shapes) > len(arguments):
        raise error_at(
            handle.location,
            f"function @{name_of(handle)} has {len(arguments)} arguments, "
            f"and is to have {len(shapes)} shapes",
        )
    for number, (argument, shape) in enumerate(zip(arguments, shapes, strict=False)):
        if shape is None:
            continue
        type_ = argument.type
        if not isinstance(type_, ir.RankedTensorType) or not _agree(shape_of(type_), shape):
            raise error_at(
                handle.location,
                f"argument {number} of @{name_of(handle)} is a {type_}: "
                f"it cannot have the shape {written(shape)}",
            )
        give_shape(argument, shape)
    update_type(handle)


def _agree(shape: Shape, sizes: tuple[int, ...]) -> bool:
    return len(shape) == len(sizes) and all(
        known in (None, size) for known, size in zip(shape, sizes, strict=True)
    )
