"""torch's placements, one for each mesh dimension, and annotations, one list for each dimension.

For a matrix, on a mesh with the dimensions dp and tp:

    [Shard(0), Replicate()]     [[0], []]
    [Shard(0), Shard(0)]        [[0, 1], []]        dp splits first
    [Shard(-1), Partial()]      [[], [0], [1]]
    {tp: Shard(1)}              [[], [1], {open = [0, 1]}]      propagation may use dp
    {tp: Replicate()}           [[], [], {open = [0, 1], replicated = [1]}]

torch's device meshes as our grids.

A `DeviceMesh` of 2x4 ranks whose dimensions are dp and tp is `@mesh(2x4)` with these axes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, cast

from torch.distributed.tensor import Replicate, Shard

from shard_dialect.errors import ShardError
from shard_dialect.model import Annotation, Axes, Axis, Grid, Reduction, Sharding

Placement = Any
"""A `torch.distributed.tensor.Placement`."""
ByAxis = Mapping[int, Placement]
"""The placements along some mesh dimensions."""
Dims = tuple[int | None, ...]
"""For each mesh dimension the dimension of a tensor that it splits; `None` where it replicates."""

_REDUCTIONS: Mapping[str, Reduction] = {
    "sum": "sum",
    "product": "product",
    "max": "max",
    "min": "min",
    "avg": "average",
}


def is_placement(each: Any) -> bool:
    """Whether this is a placement of torch's."""
    return hasattr(each, "is_shard") and hasattr(each, "is_partial")


def annotation_of(
    placements: ByAxis,
    shape: Sequence[int],
    grid: Grid,
    *,
    open_elsewhere: bool = False,
    may_be_partial: bool = False,
    priority: int | None = None,
) -> Annotation:
    """The annotation of a tensor of this shape.

    Along axes without a placement the tensor is replicated or, if `open_elsewhere`, as propagation
    decides. Raises `ShardError` for placements that the tensor cannot have.
    """
    rank = len(shape)
    split: list[list[int]] = [[] for _ in shape]
    partial, kinds, replicated = [], set(), []
    for axis, placement in sorted(placements.items()):
        if type(placement).__name__ == "Shard":
            split[_dim(placement, rank)].append(axis)
        elif placement.is_replicate():
            replicated.append(axis)
        elif placement.is_partial() and may_be_partial:
            partial.append(axis)
            kinds.add(str(placement.reduce_op))
        else:
            raise ShardError(_why_not(placement))
    if len(kinds) > 1 or not kinds <= _REDUCTIONS.keys():
        raise ShardError(f"one tensor cannot be partial by {' and '.join(sorted(kinds))}")
    reduction = _REDUCTIONS[kinds.pop()] if kinds else "sum"
    sharding = Sharding(grid.name, tuple(map(tuple, split)), tuple(partial), reduction)
    _check_even(sharding, shape, grid)
    is_open = open_elsewhere and len(placements) < grid.rank
    opened = tuple(range(rank)) if is_open else ()
    numbers = tuple(priority if axes else None for axes in split) if priority else ()
    return Annotation(sharding, opened, numbers, tuple(replicated) if is_open else ())


def _dim(placement: Placement, rank: int) -> int:
    dim = int(placement.dim)
    if not -rank <= dim < rank:
        raise ShardError(f"{placement!r} of a tensor of {rank} dimensions")
    return dim % rank


def from_the_front(placements: ByAxis, rank: int) -> ByAxis:
    """Placements of a tensor of this rank that count no dimension from the end."""
    return {
        axis: Shard(_dim(each, rank)) if each.is_shard() else each
        for axis, each in placements.items()
    }


def _why_not(placement: Placement) -> str:
    if placement.is_partial():
        return (
            f"{placement!r} is for outputs of modules inside: what comes in and goes out of the "
            "whole module is Shard(...) or Replicate()"
        )
    return f"placements are Shard(...), Replicate() and Partial(...), not {placement!r}"


def _check_even(sharding: Sharding, shape: Sequence[int], grid: Grid) -> None:
    """Raise where torch would have other shards than we: uneven along two mesh dimensions."""
    for dim, axes in enumerate(sharding.split_axes):
        if len(axes) > 1 and shape[dim] % grid.axes_size(axes):
            raise ShardError(
                f"dimension {dim} of size {shape[dim]} cannot be split evenly into "
                f"{grid.axes_size(axes)} shards, along {len(axes)} mesh dimensions"
            )


def dims_of(
    sharding: Sharding | None, shape: Sequence[int], grid: Grid, named: Mapping[int, int | None]
) -> Dims:
    """For each mesh dimension, the dimension of the tensor that it splits, or `None`.

    What torch's placements cannot say is left out, and such mesh dimensions replicate: those that
    split a dimension before a mesh dimension that torch puts first, in parts, or unevenly together
    with another one. Those of `named`, which the user has placed, are as he has placed them.

    >>> grid = Grid("g", (2, 2))
    >>> dims_of(Sharding("g", ((1, 0),)), (8,), grid, {}), dims_of(None, (8,), grid, {0: 0})
    ((None, 0), (0, None))
    """
    found: list[int | None] = [named.get(axis) for axis in range(grid.rank)]
    is_ours = sharding is not None and sharding.grid == grid.name
    for dim, axes in enumerate(sharding.split_axes if sharding and is_ours else ()):
        kept = [axis for axis, at in named.items() if at == dim]
        for axis in axes:
            if axis in kept:
                continue
            if axis in named or not _may_join(axis, kept, axes, shape[dim], grid):
                break
            kept.append(cast("int", axis))
            found[cast("int", axis)] = dim
    return tuple(found)


def _may_join(axis: Axis, kept: Sequence[int], axes: Axes, size: int, grid: Grid) -> bool:
    """Whether torch's placements say that `axis`, too, splits a dimension that `kept` split."""
    if not isinstance(axis, int) or (kept and size % grid.axes_size((*kept, axis))):
        return False
    in_order = [each for each in axes if each == axis or each in kept]
    return in_order == sorted({*kept, axis})


def sharding_of(dims: Dims, rank: int, grid: Grid) -> Sharding:
    """The inverse of `dims_of`."""
    split: list[list[int]] = [[] for _ in range(rank)]
    for axis, dim in enumerate(dims):
        if dim is not None:
            split[dim].append(axis)
    return Sharding(grid.name, tuple(map(tuple, split)))


def placements_of(dims: Dims) -> list[Placement]:
    """As torch writes them."""
    return [Replicate() if dim is None else Shard(dim) for dim in dims]


def named_dims(placements: ByAxis, rank: int) -> dict[int, int | None]:
    """The dimensions of placements of shards and whole tensors, as by `dims_of`."""
    return {
        axis: _dim(each, rank) if each.is_shard() else None
        for axis, each in sorted(placements.items())
    }


@contextmanager
def naming(name: str) -> Iterator[None]:
    """Give errors without a location, raised in the `with` block, the name of a tensor."""
    try:
        yield
    except ShardError as error:
        raise error.at(name) from None


_NAME = "mesh"


def grid_of(mesh: Any) -> Grid:
    """The grid of a `DeviceMesh`, whose dimensions become axes; a grid itself.

    Raises `ShardError` for a mesh whose ranks are not 0, 1, 2, ... in row-major order.
    """
    if isinstance(mesh, Grid):
        if not mesh.is_static:
            raise ShardError(f"the sizes of grid {mesh} must be known")
        return mesh
    if not hasattr(mesh, "mesh_dim_names"):
        raise ShardError(
            f"mesh= is a torch.distributed.device_mesh.DeviceMesh or an sd.Grid, not {mesh!r}"
        )
    ranks = mesh.mesh.flatten().tolist()
    if ranks != list(range(len(ranks))):
        raise ShardError(
            f"the ranks of the mesh are {ranks}: expected each of 0 to {len(ranks) - 1} in order, "
            "as torch.distributed.init_device_mesh makes them"
        )
    return Grid(_NAME, tuple(mesh.mesh.shape), tuple(mesh.mesh_dim_names or ()))
