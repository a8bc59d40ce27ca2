"""An interpreter of reshard plans on arrays that shares nothing with `shard_dialect.runtime`.

From the package it takes the steps and the device groups, `Grid.groups`; pieces it cuts itself,
axis by axis.
"""

from collections.abc import Callable, Sequence
from functools import reduce

import numpy as np
from numpy.typing import NDArray

from shard_dialect.model import (
    AllGather,
    AllReduce,
    AllSlice,
    AllToAll,
    Grid,
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


def cut(array: Array, sharding: Sharding, rank: int, grid: Grid) -> Array:
    """The piece of device `rank`: each axis in turn cuts what the ones before it left."""
    at = grid.coordinates(rank)
    for dim, axes in enumerate(sharding.split_axes):
        for axis in axes:
            array = np.split(array, grid.axes_size((axis,)), dim)[at[axis]]
    return array


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


def on_group(step: Step, arrays: Sequence[Array]) -> list[Array]:
    """What each member of one device group holds after `step`, in the group's order."""
    n = len(arrays)
    match step:
        case AllGather(dim):
            return [np.concatenate(arrays, dim)] * n
        case AllSlice(dim):
            return [np.split(array, n, dim)[place] for place, array in enumerate(arrays)]
        case AllReduce(_, kind):
            return [combine(arrays, kind)] * n
        case ReduceScatter(dim, _, kind):
            return np.split(combine(arrays, kind), n, dim)
        case AllToAll(source_dim, target_dim):
            parts = [np.split(array, n, target_dim) for array in arrays]
            return [np.concatenate([part[i] for part in parts], source_dim) for i in range(n)]


def on_grid(step: Step, held: Sequence[Array], grid: Grid) -> list[Array]:
    after = dict[int, Array]()
    for group in grid.groups(step.axes):
        after |= zip(group, on_group(step, [held[rank] for rank in group]), strict=True)
    return [after[rank] for rank in range(grid.size)]


def bytes_of(step: Step, operand: Array, n: int) -> int:
    match step:
        case AllSlice():
            return 0
        case AllGather():
            return (n - 1) * operand.nbytes
        case AllReduce():
            return 2 * (n - 1) * operand.nbytes // n
        case ReduceScatter() | AllToAll():
            return (n - 1) * operand.nbytes // n


def run(steps: Sequence[Step], held: list[Array], grid: Grid) -> tuple[list[Array], int]:
    """What the devices hold after `steps`, and the bytes that each has moved."""
    moved = 0
    for step in steps:
        moved += bytes_of(step, held[0], len(grid.groups(step.axes)[0]))
        held = on_grid(step, held, grid)
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
