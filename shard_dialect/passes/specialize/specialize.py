"""Sizes that a program leaves open, given: those of the arguments, and of the grid.

    --specialize='shapes={4x8,8x16} grid=2x4'

    shard.grid @g(shape = ?x4)                    shard.grid @g(shape = 2x4)
    func.func @main(%x: tensor<?x8xf32>)          func.func @main(%x: tensor<4x8xf32>)

What is computed from them follows (`spread`), and the program is one like any other. Annotations
become those of the `mesh` dialect (`import`), which stay when what they are about is folded.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from shard_dialect.errors import ShardError
from shard_dialect.ir.bindings import ir
from shard_dialect.ir.building.build import annotate
from shard_dialect.ir.diagnostics import error_at
from shard_dialect.ir.function import form_of, functions_of, name_of, refuse_form, update_type
from shard_dialect.ir.grids import OPS as GRIDS
from shard_dialect.ir.grids import read_grid, set_sizes
from shard_dialect.ir.mesh.attributes import SHARDINGS
from shard_dialect.ir.shard.text_checks import MOST_DEVICES
from shard_dialect.ir.walk import body, operations, walk
from shard_dialect.passes.framework.base import Pass
from shard_dialect.passes.specialize.device_positions import fold_grid_shapes
from shard_dialect.passes.specialize.known_shapes import (
    MOST,
    Known,
    Shape,
    behind,
    differ,
    give_shape,
    is_ranked,
    shape_of,
    written,
)
from shard_dialect.passes.specialize.propagate_shapes import leaves_open, spread
from shard_dialect.passes.specialize.separate_calls import callee_of
from shard_dialect.passes.vocabularies.import_ import import_annotations


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
            handle = _find(module, self.entry)
            _size_arguments(
                handle, [_read(each, "shapes") if each else None for each in self.shapes.split(",")]
            )
            _size_operands(module, handle)
        fold_grid_shapes(module)
        if leaves_open(module):
            import_annotations(module)
            _say_apart(module)
            spread(module, self.entry)


def _read(text: str, option: str) -> tuple[int, ...]:
    """The sizes in `4x8`; none in `scalar`."""
    sizes = [] if text.strip() == "scalar" else text.strip().split("x")
    if not all(each.isdecimal() and each.isascii() for each in sizes):
        raise ShardError(
            f"option '{option}' of pass 'specialize' has '{text}': "
            "expected sizes with an x between them, as in 4x8"
        )
    found = tuple(map(int, sizes))
    if prod(each or 1 for each in found) > MOST:
        raise ShardError(f"option '{option}' of pass 'specialize' has '{text}': too many elements")
    return found


def _size_grid(module: ir.Operation, sizes: tuple[int, ...]) -> None:
    found = [op for op in operations(body(module)) if op.name in GRIDS]
    open_ = [(op, grid) for op in found if (grid := read_grid(op)) and not grid.is_static]
    if len(open_) != 1:
        names = ", ".join(f"@{grid.name}" for _, grid in open_) or "none"
        raise ShardError(f"one grid is to have the shape {written(sizes)}, of {names}")
    op, grid = open_[0]
    if not _agree(grid.shape, sizes) or not 0 < prod(sizes) <= MOST_DEVICES:
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


def _size_operands(module: ir.Operation, callee: ir.Operation) -> None:
    """Let calls give the arguments what they are now."""
    types = callee.attributes["function_type"].value.inputs
    for op in walk(module):
        if op.name != "func.call" or callee_of(op) != name_of(callee):
            continue
        for place, type_ in enumerate(types):
            operand = op.operands[place]
            if isinstance(type_, ir.RankedTensorType):
                if differ(behind(operand).type, type_):
                    raise error_at(
                        op.location,
                        f"function @{name_of(callee)} is called with a {behind(operand).type} as "
                        f"argument {place}, which is to be a {type_}",
                    )
                Known().set_operand(op, place, shape_of(type_))


def _say_apart(module: ir.Operation) -> None:
    """Say in ops of their own how the results of unknown size lie that other ops say it of.

    What MLIR makes in the place of an op does not have its attributes.
    """
    for op in walk(module):
        if SHARDINGS not in op.attributes or op.name == "func.func":
            continue
        said = list(op.attributes[SHARDINGS])
        for place, result in enumerate(op.results):
            is_said = not isinstance(said[place], ir.UnitAttr)
            if is_said and is_ranked(result) and not result.type.has_static_shape:
                with ir.InsertionPoint.after(op), op.location:
                    lies = annotate(result, said[place], as_result=True)
                result.replace_all_uses_except(lies, lies.owner.operation)
                said[place] = ir.UnitAttr.get()
        op.attributes[SHARDINGS] = ir.ArrayAttr.get(said)
        if all(isinstance(each, ir.UnitAttr) for each in said):
            del op.attributes[SHARDINGS]


def _agree(shape: Shape, sizes: tuple[int, ...]) -> bool:
    return len(shape) == len(sizes) and all(
        known in (None, size) for known, size in zip(shape, sizes, strict=True)
    )
