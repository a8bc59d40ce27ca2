"""Give the sizes that a program leaves open: those of its arguments, and of the grid.

    --set-sizes='shapes={4x8} scalars={,2} grid=2x4'

    shard.grid @g(shape = ?x4)                         shard.grid @g(shape = 2x4)
    func.func @main(%x: tensor<?x8xf32>, %n: i64)      func.func @main(%x: tensor<4x8xf32>)
                                                         %n = arith.constant 2 : i64

The scalars may be sizes of halos or offsets, which must be known before the program is sharded.
The shapes of all values computed from them follow (`propagate-shapes`).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from shard_dialect.errors import ShardError, as_symbol
from shard_dialect.ir.bindings import ir
from shard_dialect.ir.building import build
from shard_dialect.ir.diagnostics import error_at
from shard_dialect.ir.function import (
    argument_text,
    boundary,
    form_of,
    functions_of,
    name_of,
    refuse_form,
    set_boundary,
    update_type,
)
from shard_dialect.ir.grids import OPS as GRIDS
from shard_dialect.ir.grids import read_grid, set_sizes
from shard_dialect.ir.shard.check_text import MOST_DEVICES
from shard_dialect.ir.walk import body, operations, walk
from shard_dialect.passes.calls import callee_of
from shard_dialect.passes.framework.base import UNCHANGED, Outcome, Pass
from shard_dialect.passes.framework.options import SizeOptions
from shard_dialect.passes.specialize.shape_rules import (
    MOST,
    Known,
    Shape,
    behind,
    differ,
    give_shape,
    shape_of,
    written,
)


@dataclass(frozen=True)
class SetSizes(SizeOptions, Pass):
    """Set the sizes of the grid and of the arguments, and the values of scalar arguments."""

    name = "set-sizes"

    def rewrite(self, module: ir.Operation) -> Outcome:
        """Set what is given; raise a `ShardError` for what contradicts the program."""
        if not (self.grid or self.shapes or self.scalars):
            return UNCHANGED
        if self.grid:
            _size_grid(module, _read(self.grid, "grid"))
        if self.shapes:
            handle = _find(module, self.entry)
            _size_arguments(
                handle, [_read(each, "shapes") if each else None for each in self.shapes.split(",")]
            )
            _size_operands(module, handle)
        if self.scalars:
            _set_scalars(module, _find(module, self.entry), self.scalars.split(","))
        return None


def _read(text: str, option: str) -> tuple[int, ...]:
    """The sizes in a text such as `4x8`; none for `scalar`."""
    sizes = [] if text.strip() == "scalar" else text.strip().split("x")
    if not all(each.isdecimal() and each.isascii() for each in sizes):
        raise ShardError(
            f"option '{option}' of pass 'specialize' has '{text}': "
            "expected sizes with an x between them, as in 4x8"
        )
    shape = tuple(map(int, sizes))
    if prod(each or 1 for each in shape) > MOST:
        raise ShardError(f"option '{option}' of pass 'specialize' has '{text}': too many elements")
    return shape


def _size_grid(module: ir.Operation, sizes: tuple[int, ...]) -> None:
    grid_ops = [op for op in operations(body(module)) if op.name in GRIDS]
    open_ = [(op, grid) for op in grid_ops if (grid := read_grid(op)) and not grid.is_static]
    if not open_:
        known = ", ".join(str(read_grid(op)) for op in grid_ops) or "none"
        raise ShardError(f"no grid can have the shape {written(sizes)}: there is {known}")
    if len(open_) != 1:
        names = ", ".join(as_symbol(grid.name) for _, grid in open_)
        raise ShardError(f"one grid is to have the shape {written(sizes)}, of {names}")
    op, grid = open_[0]
    if not _agree(grid.shape, sizes) or not 0 < prod(sizes) <= MOST_DEVICES:
        raise error_at(op.location, f"grid {grid} cannot have the shape {written(sizes)}")
    set_sizes(op, sizes)


def _find(module: ir.Operation, name: str) -> ir.Operation:
    for handle in functions_of(module):
        if name_of(handle) == name:
            return handle
    raise ShardError(f"there is no function {as_symbol(name)} to specialize")


def _size_arguments(handle: ir.Operation, shapes: list[tuple[int, ...] | None]) -> None:
    if form_of(handle) != "annotated":
        raise refuse_form(handle, ": --specialize it before it is sharded")
    arguments = list(body(handle).arguments)
    if len(shapes) > len(arguments):
        raise error_at(
            handle.location,
            f"function {as_symbol(name_of(handle))} has {len(arguments)} arguments, "
            f"and is to have {len(shapes)} shapes",
        )
    for number, (argument, shape) in enumerate(zip(arguments, shapes, strict=False)):
        if shape is None:
            continue
        type_ = argument.type
        if not isinstance(type_, ir.RankedTensorType) or not _agree(shape_of(type_), shape):
            raise error_at(
                argument.location,
                f"{argument_text(handle, number)} is a {type_}: "
                f"it cannot have the shape {written(shape)}",
            )
        give_shape(argument, shape)
    update_type(handle)


def _size_operands(module: ir.Operation, callee: ir.Operation) -> None:
    """Let calls of `callee` pass operands of its arguments' new types."""
    types = callee.attributes["function_type"].value.inputs
    for op in walk(module):
        if op.name != "func.call" or callee_of(op) != name_of(callee):
            continue
        for number, type_ in enumerate(types):
            operand = op.operands[number]
            if isinstance(type_, ir.RankedTensorType):
                if differ(behind(operand).type, type_):
                    raise error_at(
                        op.location,
                        f"function {as_symbol(name_of(callee))} is called with a "
                        f"{behind(operand).type} as argument {number}, which is to be a {type_}",
                    )
                Known().set_operand(op, number, shape_of(type_))


def _set_scalars(module: ir.Operation, handle: ir.Operation, texts: list[str]) -> None:
    """Replace the arguments that have values by constants."""
    if form_of(handle) != "annotated":
        raise refuse_form(handle, ": --specialize it before it is sharded")
    block, entries = body(handle), boundary(handle, "arg_attrs")
    if len(texts) > len(entries):
        raise error_at(
            handle.location,
            f"function {as_symbol(name_of(handle))} has {len(entries)} arguments, "
            f"and is to have {len(texts)} scalars",
        )
    if any(op.name == "func.call" and callee_of(op) == name_of(handle) for op in walk(module)):
        raise error_at(
            handle.location,
            f"function {as_symbol(name_of(handle))} is called in the module, so its arguments "
            "cannot become constants",
        )
    given = [(number, text.strip()) for number, text in enumerate(texts) if text.strip()]
    for number, text in reversed(given):
        argument = block.arguments[number]
        with ir.InsertionPoint.at_block_begin(block), handle.location:
            constant = build.scalar(_scalar(argument.type, text, number, handle))
        argument.replace_all_uses_with(constant)
        block.erase_argument(number)
        del entries[number]
    update_type(handle)
    set_boundary(handle, "arg_attrs", entries)


def _scalar(type_: ir.Type, text: str, number: int, handle: ir.Operation) -> ir.Attribute:
    width = type_.width if isinstance(type_, ir.IntegerType) else 64
    is_integer = isinstance(type_, ir.IntegerType | ir.IndexType)
    digits = text.removeprefix("-")
    is_number = digits.isdecimal() and digits.isascii() and len(digits) < 20
    if is_integer and is_number and -(1 << (width - 1)) <= int(text) < 1 << (width - 1):
        return ir.IntegerAttr.get(type_, int(text))
    raise error_at(
        body(handle).arguments[number].location,
        f"{argument_text(handle, number)} is a {type_}: it cannot have the value {text}",
    )


def _agree(shape: Shape, sizes: tuple[int, ...]) -> bool:
    return len(shape) == len(sizes) and all(
        known in (None, size) for known, size in zip(shape, sizes, strict=True)
    )
