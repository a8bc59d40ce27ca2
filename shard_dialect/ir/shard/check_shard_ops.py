"""Checks of upstream's `shard` ops that upstream's own verifier does not make.

    shard.broadcast %x on @g grid_axes = [0] root = [-1]          no such device
    shard.all_reduce %x on @g : tensor<4xf32> -> tensor<4xi8>     no such reduction

The table at the end maps each op to its checks; docs/upstream.md lists them. Upstream already
refuses unknown grids, axes out of range, and sizes that do not fit.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import prod
from typing import TYPE_CHECKING

from shard_dialect.ir.bindings import ir
from shard_dialect.ir.function import name_of
from shard_dialect.ir.reading.spelling import scatter_dim
from shard_dialect.ir.shard.check_shardings import (
    check_axes,
    check_coordinates,
    check_operands,
    check_shard,
    check_shard_shape,
    check_sharding,
    check_update_halo,
    grid_of,
    shape_of,
)
from shard_dialect.ir.shard.check_text import MOST_DEVICES
from shard_dialect.ir.shard.sharding_ops import group_size, sizes_in
from shard_dialect.model import ShardingError

if TYPE_CHECKING:
    from shard_dialect.ir.mesh.sharding_attributes import Shardings

    Check = Callable[[ir.Operation, Shardings], None]


def check(op: ir.Operation, shardings: Shardings) -> None:
    """Raise `ShardingError` if `op` is one of upstream's ops, and invalid."""
    for each in CHECKS.get(op.name, ()):
        each(op, shardings)


def _check_grid(op: ir.Operation, _: Shardings) -> None:
    sizes = [size for size in sizes_in(op, "shape") if size is not None]
    if 0 in sizes:
        raise ShardingError(f"grid @{name_of(op)} has size 0 on an axis: sizes are at least 1")
    if prod(sizes) > MOST_DEVICES:
        raise ShardingError(f"grid @{name_of(op)} has more than {MOST_DEVICES} devices")


def _check_neighbors(op: ir.Operation, shardings: Shardings) -> None:
    grid = grid_of(op, shardings)
    check_axes([tuple(op.attributes["split_axes"])], grid)
    if len(op.operands) != grid.rank:
        raise ShardingError(
            f"has {len(op.operands)} device coordinates for grid @{grid.name} of rank {grid.rank}"
        )


def _axes(op: ir.Operation) -> tuple[int, ...]:
    return tuple(op.attributes["grid_axes"]) if "grid_axes" in op.attributes else ()


def _check_device(op: ir.Operation, shardings: Shardings, key: str) -> None:
    device = sizes_in(op, key)
    check_operands(key, device, len(op.operands) - 1)
    if key in op.attributes:
        check_coordinates(key, device, grid_of(op, shardings), _axes(op))


_check_root = partial(_check_device, key="root")
_check_source = partial(_check_device, key="source")
_check_destination = partial(_check_device, key="destination")


def _check_dimension(op: ir.Operation, _: Shardings, key: str) -> None:
    dim, rank = op.attributes[key].value, op.operands[0].type.rank
    if not 0 <= dim < rank:
        raise ShardingError(f"has {key} = {dim}, which is no dimension of {op.operands[0].type}")


_check_slice = partial(_check_dimension, key="slice_axis")
_check_split = partial(_check_dimension, key="split_axis")
_check_concat = partial(_check_dimension, key="concat_axis")


def _check_scatter(op: ir.Operation, shardings: Shardings) -> None:
    _check_dimension(op, shardings, scatter_dim())


def _check_exchange(op: ir.Operation, shardings: Shardings) -> None:
    """Raise unless devices exchange equal slices, even along one and the same dimension."""
    dim = op.attributes["split_axis"].value
    size = shape_of(op.operands[0].type)[dim]
    devices = group_size(grid_of(op, shardings), _axes(op))
    if size is not None and devices is not None and size % devices:
        raise ShardingError(f"dimension {dim} of size {size} does not divide by {devices} devices")


def _check_reduction(op: ir.Operation, _: Shardings) -> None:
    source, target = (value.type.element_type for value in (op.operands[0], op.results[0]))
    if not _widens(source, target):
        raise ShardingError(
            f"reduces {source} to {target}: expected the same type, or a wider one of its kind"
        )
    kind = str(op.attributes["reduction"]) if "reduction" in op.attributes else ""
    if "bitwise" in kind and not isinstance(source, ir.IntegerType | ir.IndexType):
        name = kind.removeprefix("#shard<partial ").removesuffix(">")
        raise ShardingError(f"has reduction {name} of {source}: expected integers")


def _widens(source: ir.Type, target: ir.Type) -> bool:
    """Whether type `target` is `source`, or a wider type of the same kind of number."""
    if source == target:
        return True
    for kind in (ir.FloatType, ir.IntegerType):
        if isinstance(source, kind) and isinstance(target, kind):
            return bool(target.width > source.width) and _signedness(source) == _signedness(target)
    if isinstance(source, ir.ComplexType) and isinstance(target, ir.ComplexType):
        return _widens(source.element_type, target.element_type)
    return False


def _signedness(type_: ir.Type) -> str:
    return str(type_).rstrip("0123456789") if isinstance(type_, ir.IntegerType) else ""


CHECKS: dict[str, tuple[Check, ...]] = {
    "shard.grid": (_check_grid,),
    "shard.sharding": (check_sharding,),
    "shard.shard": (check_shard,),
    "shard.shard_shape": (check_shard_shape,),
    "shard.neighbors_linear_indices": (_check_neighbors,),
    "shard.update_halo": (check_update_halo,),
    "shard.all_reduce": (_check_reduction,),
    "shard.all_slice": (_check_slice,),
    "shard.all_to_all": (_check_split, _check_concat, _check_exchange),
    "shard.broadcast": (_check_root,),
    "shard.gather": (_check_root,),
    "shard.reduce": (_check_root, _check_reduction),
    "shard.reduce_scatter": (_check_scatter, _check_reduction),
    "shard.scatter": (_check_root, _check_scatter),
    "shard.send": (_check_destination,),
    "shard.recv": (_check_source,),
}
"""Upstream fully checks the ops that are not here (`shard.all_gather`, `shard.shift`, ...)."""
