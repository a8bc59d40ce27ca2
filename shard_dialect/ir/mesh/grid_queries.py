"""The axes that `mesh.idx` and `mesh.size` ask for.

"mesh.idx"() {axis = 1 : index} : () -> index      the RFC's: one axis
"mesh.idx"() {mesh_axis = [1, 0]} : () -> index    several, as those of a group; the last fastest
"mesh.idx"() : () -> index                         all axes: the device's rank
"""

from __future__ import annotations

from shard_dialect.ir.bindings import ir
from shard_dialect.ir.mesh.attributes import integer, ints
from shard_dialect.model import Grid, ShardingError

GRID_QUERIES = ("mesh.idx", "mesh.size")


def named_axes(op: ir.Operation) -> tuple[int, ...] | None:
    """The axes that an op names; `None` if it names none. Raises `ShardingError`."""
    if "axis" in op.attributes and "mesh_axis" in op.attributes:
        raise ShardingError("has axis and mesh_axis: expected one of them")
    axes: tuple[int, ...]
    if "axis" in op.attributes:
        axes = (integer(op.attributes["axis"]),)
    elif "mesh_axis" in op.attributes:
        axes = tuple(ints(op.attributes["mesh_axis"]))
    else:
        return None
    if len(set(axes)) != len(axes) or min(axes, default=0) < 0:
        raise ShardingError(f"asks for axes {list(axes)}: expected different axes of the grid")
    return axes


def queried_axes(op: ir.Operation, grid: Grid) -> tuple[int, ...]:
    """The axes that an op names, or all axes of the grid."""
    axes = named_axes(op)
    return tuple(range(grid.rank)) if axes is None else axes
