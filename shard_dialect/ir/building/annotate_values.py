"""Annotations for modules that are made in Python, over the bindings."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from shard_dialect.errors import ShardError, as_symbol
from shard_dialect.ir.bindings import ir
from shard_dialect.ir.building import build
from shard_dialect.ir.foreign_modules import make_ready
from shard_dialect.ir.grids import grids_of, write_grid
from shard_dialect.ir.mesh.sharding_attributes import Shardings
from shard_dialect.model import Annotation, Grid, Sharding
from shard_dialect.model.annotation import SplitAxes, sharding_on


def annotate(
    value: ir.Value,
    grid: Grid,
    sharding: Sharding | SplitAxes,
    open_dims: Sequence[int] = (),
) -> ir.Value:
    """Return `value` with a sharding, for the ops that are made next.

    `sharding` lists for each dimension the names or numbers of the axes that split it; propagation
    may split the dimensions in `open_dims` further. Declares the grid in the module, if it is not
    declared there. Writes at the current insertion point, or after the value if there is none.
    Raises `ShardError` for a value that is no ranked tensor, a sharding that it cannot have, or
    another grid of the same name.
    """
    if not isinstance(value.type, ir.RankedTensorType):
        raise ShardError(f"a sharding is for a ranked tensor, not for a {value.type}")
    found = sharding_on(grid, sharding, value.type.rank)
    annotation = Annotation(found, tuple(open_dims))
    point = _insertion_point(value)
    with value.context, point, _location(value):
        module = _module_of(point.block)
        make_ready(module)
        grids = _declared(module, grid)
        attribute = Shardings(grids).write(annotation)
        return build.annotate(value, attribute, as_result=True)


def _insertion_point(value: ir.Value) -> ir.InsertionPoint:
    with suppress(ValueError):  # which some versions of the bindings raise; others return `None`
        if point := ir.InsertionPoint.current:
            return point
    owner = value.owner
    if isinstance(owner, ir.Block):
        return ir.InsertionPoint.at_block_begin(owner)
    return ir.InsertionPoint.after(owner)


def _location(value: ir.Value) -> ir.Location:
    with suppress(ValueError):
        if location := ir.Location.current:
            return location
    return value.location


def _module_of(block: ir.Block) -> ir.Operation:
    op = block.owner.operation
    while op.parent is not None:
        op = op.parent.operation
    return op


def _told(grid: Grid) -> str:
    """A grid with all in which two of one name may differ."""
    axes = f" of axes {', '.join(grid.axes)}" if grid.axes else ""
    order = f" in the order {list(grid.device_ids)}" if grid.device_ids else ""
    return f"{grid}{axes or ' of axes without names'}{order}"


def _declared(module: ir.Operation, grid: Grid) -> dict[str, Grid]:
    """The module's grids, with this one among them."""
    grids = grids_of(module)
    if grid.name not in grids:
        with ir.InsertionPoint.at_block_begin(module.regions[0].blocks[0]):
            write_grid(grid)
        grids[grid.name] = grid
    elif grids[grid.name] != grid:
        raise ShardError(
            f"the module has another grid {as_symbol(grid.name)}: "
            f"{_told(grids[grid.name])}, not {_told(grid)}"
        )
    return grids
