"""torch's placements, one for each mesh dimension, and annotations, one list for each dimension.

For a matrix, on a mesh with the dimensions dp and tp:

    [Shard(0), Replicate()]     [[0], []]
    [Shard(0), Shard(0)]        [[0, 1], []]        dp splits first
    [Shard(-1), Partial()]      [[], [0], [1]]
    {tp: Shard(1)}              [[], [1], {open = [0, 1]}]      propagation may use dp
    {tp: Replicate()}           [[], [], {open = [0, 1], replicated = [1]}]
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Literal, cast

from shard_dialect.errors import ShardError
from shard_dialect.model import Annotation, Axes, Grid, Reduction, Sharding

Placement = Any
"""A `torch.distributed.tensor.Placement`."""
ByAxis = Mapping[int, Placement]
"""The placements along some mesh dimensions."""
Plain = tuple[Literal["shard"], int] | tuple[Literal["replicate"]]

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


def placements_of(sharding: Sharding | None, shape: Sequence[int], grid: Grid) -> list[Plain]:
    """For each mesh dimension ("shard", dim) or ("replicate",); what torch cannot say left out.

    That is what splits a dimension in another order than the mesh's, by a part of a mesh dimension,
    or unevenly along two: such axes are replicated.
    """
    found: list[Plain] = [("replicate",)] * grid.rank
    for dim, axes in enumerate(sharding.split_axes if sharding else ()):
        for axis in _sayable(axes, shape[dim], grid):
            found[axis] = ("shard", dim)
    return found


def _sayable(axes: Axes, size: int, grid: Grid) -> list[int]:
    kept: list[int] = []
    for axis in axes:
        full = isinstance(axis, int) and all(axis > before for before in kept)
        if not full or (kept and size % grid.axes_size((*kept, axis))):
            break
        kept.append(cast("int", axis))
    return kept


def sharding_of(placements: Sequence[Plain], rank: int, grid: Grid) -> Sharding:
    """The inverse of `placements_of`."""
    split: list[list[int]] = [[] for _ in range(rank)]
    for axis, placement in enumerate(placements):
        if placement[0] == "shard":
            split[placement[1]].append(axis)
    return Sharding(grid.name, tuple(map(tuple, split)))


@contextmanager
def naming(name: str) -> Iterator[None]:
    """Give errors without a location, raised in the `with` block, the name of a tensor."""
    try:
        yield
    except ShardError as error:
        raise error.at(name) from None
