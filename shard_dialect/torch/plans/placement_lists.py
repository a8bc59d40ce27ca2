"""torch's placements, one for each mesh dimension, and annotations, one list for each dimension.

For a matrix, on a mesh with the dimensions dp and tp:

    [Shard(0), Replicate()]     [[0], []]
    [Shard(0), Shard(0)]        [[0, 1], []]        dp splits first
    [_StridedShard(0, split_factor=4), Shard(0)]    [[1, 0], []]    tp, of 4, splits first
    [Shard(-1), Partial()]      [[], [0], [1]]
    {tp: Shard(1)}              [[], [1], {open = [0, 1]}]      propagation may use dp
    {tp: Replicate()}           [[], [], {open = [0, 1], replicated = [1]}]

torch's device meshes as our grids.

A `DeviceMesh` of 2x4 ranks whose dimensions are dp and tp is `@mesh(2x4)` with these axes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, cast

from torch.distributed.tensor import Replicate, Shard
from torch.distributed.tensor.placement_types import _StridedShard

from shard_dialect.errors import ShardError
from shard_dialect.model import Annotation, Axis, Grid, Reduction, Sharding

Placement = Any
"""A `torch.distributed.tensor.Placement`."""
ByAxis = Mapping[int, Placement]
"""The placements along some mesh dimensions."""

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
    partial, kinds, replicated = [], set(), []
    for axis, placement in sorted(placements.items()):
        if _is_shard(placement):
            continue
        if placement.is_replicate():
            replicated.append(axis)
        elif placement.is_partial() and may_be_partial:
            partial.append(axis)
            kinds.add(str(placement.reduce_op))
        else:
            raise ShardError(_why_not(placement))
    if len(kinds) > 1 or not kinds <= _REDUCTIONS.keys():
        raise ShardError(f"one tensor cannot be partial by {' and '.join(sorted(kinds))}")
    split = _split_axes(placements, rank, grid)
    reduction = _REDUCTIONS[kinds.pop()] if kinds else "sum"
    sharding = Sharding(grid.name, tuple(map(tuple, split)), tuple(partial), reduction)
    _check_even(sharding, shape, grid)
    is_open = open_elsewhere and len(placements) < grid.rank
    opened = tuple(range(rank)) if is_open else ()
    numbers = tuple(priority if axes else None for axes in split) if priority else ()
    return Annotation(sharding, opened, numbers, tuple(replicated) if is_open else ())


def _is_shard(placement: Placement) -> bool:
    return type(placement).__name__ in ("Shard", "_StridedShard")


def _dim(placement: Placement, rank: int) -> int:
    dim = int(placement.dim)
    if not -rank <= dim < rank:
        raise ShardError(f"{placement!r} of a tensor of {rank} dimensions")
    return dim % rank


def _split_axes(placements: ByAxis, rank: int, grid: Grid) -> list[list[int]]:
    """For each dimension of a tensor the mesh dimensions that split it, major to minor."""
    split: list[list[int]] = [[] for _ in range(rank)]
    for axis, placement in sorted(placements.items(), reverse=True):
        if _is_shard(placement):
            later = split[_dim(placement, rank)]
            later.insert(_number_before(placement, later, grid), axis)
    return split


def _number_before(placement: Placement, later: Sequence[int], grid: Grid) -> int:
    """How many of the later mesh dimensions split before the one of this placement."""
    factor = getattr(placement, "split_factor", 1)
    for number in range(len(later) + 1):
        if grid.axes_size(tuple(later[:number])) == factor:
            return number
    raise ShardError(
        f"{placement!r}: later mesh dimensions split dimension {placement.dim} into "
        f"{grid.axes_size(tuple(later))} parts, not first into {factor}"
    )


def from_the_front(placements: ByAxis, rank: int) -> ByAxis:
    """Placements of a tensor of this rank that count no dimension from the end."""
    return {
        axis: _shard(_dim(each, rank), getattr(each, "split_factor", 1))
        if _is_shard(each)
        else each
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


def sayable(sharding: Sharding | None, shape: Sequence[int], grid: Grid, given: ByAxis) -> Sharding:
    """The sharding, or the nearest one that torch's placements can say.

    Mesh dimensions replicate which split a dimension in parts, unevenly together with another one,
    or before a mesh dimension that torch puts first. Those of `given` are as the user has placed
    them, in his order.

    >>> grid = Grid("g", (2, 2))
    >>> str(sayable(Sharding("g", ((1, 0),)), (8,), grid, {}))
    '[[1]]'
    >>> str(sayable(None, (8,), grid, {0: Shard(0)}))
    '[[0]]'
    """
    split = _split_axes(given, len(shape), grid)
    is_ours = sharding is not None and sharding.grid == grid.name
    for dim, axes in enumerate(sharding.split_axes if sharding and is_ours else ()):
        for axis in axes:
            if axis in split[dim]:
                continue
            joined = [each for each in axes if each == axis or each in split[dim]]
            if axis in given or not _may_be(joined, split[dim], shape[dim], grid):
                break
            split[dim] = cast("list[int]", joined)
    return Sharding(grid.name, tuple(map(tuple, split)))


def _may_be(joined: Sequence[Axis], before: Sequence[int], size: int, grid: Grid) -> bool:
    """Whether a plain `Shard` says that one more mesh dimension splits what `before` split."""
    if len(joined) != len(before) + 1 or not all(isinstance(each, int) for each in joined):
        return False
    axes = cast("list[int]", joined)
    is_even = not before or size % grid.axes_size(tuple(axes)) == 0
    return is_even and _factors(axes, grid) == _factors(before, grid)


def _factors(axes: Sequence[int], grid: Grid) -> dict[int, int]:
    """Of mesh dimensions that split after later ones, into how many parts these split."""
    found = {
        axis: grid.axes_size(tuple(each for each in axes[:number] if each > axis))
        for number, axis in enumerate(axes)
    }
    return {axis: factor for axis, factor in found.items() if factor > 1}


def placements_of(sharding: Sharding, grid: Grid) -> list[Placement]:
    """As torch writes a sharding by whole mesh dimensions.

    >>> placements_of(Sharding("g", ((0,), (2, 1))), Grid("g", (2, 2, 2)))
    [Shard(dim=0), _StridedShard(dim=1, sf=2), Shard(dim=1)]
    """
    found: list[Placement] = [Replicate()] * grid.rank
    for dim, axes in enumerate(sharding.split_axes):
        own = cast("tuple[int, ...]", axes)
        factors = _factors(own, grid)
        for axis in own:
            found[axis] = _shard(dim, factors.get(axis, 1))
    return found


def _shard(dim: int, factor: int) -> Placement:
    return Shard(dim) if factor == 1 else _StridedShard(dim, split_factor=factor)


def split_last(placements: ByAxis, axes: Collection[int], rank: int, grid: Grid) -> ByAxis:
    """The placements, where those along `axes` split a dimension after all others.

    So FSDP2 splits what another style has split, and gathers it without a permutation.

    >>> split_last({0: Shard(0), 1: Shard(0)}, {0}, 2, Grid("g", (2, 4)))
    {0: _StridedShard(dim=0, sf=4), 1: Shard(dim=0)}
    """
    split = _split_axes(placements, rank, grid)
    found = dict(placements)
    for dim, own in enumerate(split):
        order = sorted(own, key=lambda axis: axis in axes)
        factors = _factors(order, grid)
        found |= {axis: _shard(dim, factors.get(axis, 1)) for axis in order}
    return found


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
