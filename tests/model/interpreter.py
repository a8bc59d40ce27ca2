"""An interpreter of reshard plans on arrays that shares nothing with `shard_dialect.runtime`.

From the package it takes the steps and the device groups, `Grid.groups`; pieces it cuts itself.
"""

from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import reduce
from math import prod

import numpy as np
from numpy.typing import NDArray

from shard_dialect.model import (
    AllGather,
    AllReduce,
    AllSlice,
    AllToAll,
    Grid,
    Mask,
    Permute,
    ReduceScatter,
    Reduction,
    Sharding,
    Step,
)

DTYPE = np.dtype(np.int32)
Array = NDArray[np.int32]
Axes = tuple[int, ...]
Shape = tuple[int, ...]

COMBINE: dict[Reduction, Callable[[Array, Array], Array]] = {
    "sum": np.add,
    "max": np.maximum,
    "min": np.minimum,
    "product": np.multiply,
}


def piece_size(size: int, axes: Axes, grid: Grid) -> int:
    return -(-size // grid.axes_size(axes))


def cut(array: Array, sharding: Sharding, rank: int, grid: Grid) -> Array:
    """The piece of device `rank`: shorter, or empty, at the end of what does not divide."""
    at = grid.coordinates(rank)
    for dim, axes in enumerate(sharding.split_axes):
        size, place = piece_size(array.shape[dim], axes, grid), 0
        for axis in axes:
            place = place * grid.axes_size((axis,)) + at[axis]
        array = take(array, dim, place, size)
    return array


def take(array: Array, dim: int, place: int, size: int) -> Array:
    """Piece number `place` of those of `size` along `dim`."""
    return array[(slice(None),) * dim + (slice(place * size, (place + 1) * size),)]


def addends(whole: Array, count: int, kind: Reduction, random: np.random.Generator) -> list[Array]:
    """`count` random arrays that `kind` combines to `whole`."""
    if kind == "sum":
        parts = [random.integers(-100, 100, whole.shape, DTYPE) for _ in range(count - 1)]
        return [*parts, whole - sum(parts, np.zeros_like(whole))]
    if kind == "product":
        signs = [random.choice(np.array([-1, 1], DTYPE), whole.shape) for _ in range(count - 1)]
        return [*signs, whole * reduce(np.multiply, signs, np.ones_like(whole))]
    off = random.integers(1, 100, (count, *whole.shape), DTYPE)
    owner = random.integers(0, count, whole.shape)
    np.put_along_axis(off, owner[np.newaxis], 0, axis=0)
    return [whole - each if kind == "max" else whole + each for each in off]


def spread(whole: Array, sharding: Sharding, grid: Grid, seed: int = 0) -> list[Array]:
    """The array of each device under `sharding`, which along partial axes combine to `whole`."""
    random = np.random.default_rng(seed)
    parts = addends(whole, grid.axes_size(sharding.partial), sharding.reduction, random)
    return [
        cut(parts[grid.index_along(rank, sharding.partial)], sharding, rank, grid)
        for rank in range(grid.size)
    ]


def combine(arrays: Sequence[Array], kind: Reduction) -> Array:
    return reduce(COMBINE[kind], arrays)


def on_group(step: Step, arrays: Sequence[Array], size: int) -> list[Array]:
    """What each member of one device group holds after `step`, in the group's order.

    A dimension that the step splits is in pieces of `size` then.
    """
    n = len(arrays)
    match step:
        case AllGather(dim):
            return [np.concatenate(arrays, dim)] * n
        case AllSlice(dim):
            return [take(array, dim, place, size) for place, array in enumerate(arrays)]
        case AllReduce(_, kind):
            return [combine(arrays, kind)] * n
        case ReduceScatter(dim, _, kind):
            return [take(combine(arrays, kind), dim, place, size) for place in range(n)]
        case AllToAll(source_dim, target_dim):
            return [
                np.concatenate([take(each, target_dim, place, size) for each in arrays], source_dim)
                for place in range(n)
            ]
        case Permute(_, permutation):
            return [arrays[permutation.index(place)] for place in range(n)]
        case Mask(_, kind):
            info = np.iinfo(DTYPE)
            alone = {"sum": 0, "product": 1, "max": info.min, "min": info.max}[kind]
            return [arrays[0], *(np.full_like(each, alone) for each in arrays[1:])]


def split_dim(step: Step) -> int | None:
    match step:
        case AllSlice(dim) | ReduceScatter(dim) | AllToAll(_, dim):
            return dim
    return None


def on_grid(
    step: Step, held: Sequence[Array], now: Sharding, shape: Shape, grid: Grid
) -> list[Array]:
    """What the devices hold after `step`, if a tensor of `shape` lies as `now` before."""
    dim = split_dim(step)
    size = 0 if dim is None else piece_size(shape[dim], step.after(now).split_axes[dim], grid)
    after = dict[int, Array]()
    for group in grid.groups(step.axes):
        after |= zip(group, on_group(step, [held[rank] for rank in group], size), strict=True)
    return [after[rank] for rank in range(grid.size)]


def bytes_of(step: Step, now: Sharding, shape: Shape, grid: Grid) -> Fraction:
    """What one device moves: of the largest piece, padded to what is cut evenly."""
    n = grid.axes_size(step.axes)
    after = step.after(now)
    held = [piece_size(size, axes, grid) for size, axes in zip(shape, now.split_axes, strict=True)]
    dim = split_dim(step)
    if dim is not None:
        held[dim] = n * piece_size(shape[dim], after.split_axes[dim], grid)
    operand = prod(held) * DTYPE.itemsize
    match step:
        case AllSlice() | Mask():
            return Fraction(0)
        case AllGather():
            return Fraction((n - 1) * operand)
        case AllReduce():
            return Fraction(2 * (n - 1) * operand, n)
        case ReduceScatter() | AllToAll():
            return Fraction((n - 1) * operand, n)
        case Permute():
            return Fraction(operand if n > 1 else 0)


def run(
    steps: Sequence[Step], held: list[Array], source: Sharding, shape: Shape, grid: Grid
) -> tuple[list[Array], int]:
    """What the devices hold after `steps`, and the bytes that each has moved."""
    moved, now = 0, source
    for step in steps:
        moved += int(bytes_of(step, now, shape, grid))
        held = on_grid(step, held, now, shape, grid)
        now = step.after(now)
    return held, moved


def holds(held: Sequence[Array], whole: Array, sharding: Sharding, grid: Grid) -> bool:
    """Whether each device's array, combined along the partial axes, is its piece of `whole`."""
    return all(
        np.array_equal(
            combine(
                [held[member] for member in grid.group_of(rank, sharding.partial)],
                sharding.reduction,
            ),
            cut(whole, sharding, rank, grid),
        )
        for rank in range(grid.size)
    )


def whole_array(shape: Shape) -> Array:
    return np.random.default_rng(1).integers(-1000, 1000, shape, DTYPE)


def lay(*dims: Axes, partial: Axes = (), kind: Reduction = "sum", grid: str = "g") -> Sharding:
    return Sharding(grid, dims, partial, kind)
