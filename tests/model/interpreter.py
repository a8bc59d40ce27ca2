"""An interpreter of reshard plans on arrays that shares nothing with `shard_dialect.runtime`.

From the package it takes the steps and the device groups, `Grid.groups`; shards it cuts itself.
"""

from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import lru_cache, reduce
from itertools import pairwise
from math import prod

import numpy as np
from numpy.typing import NDArray

from shard_dialect.collectives import (
    AllGather,
    AllReduce,
    AllSlice,
    AllToAll,
    CropHalo,
    Exchange,
    Mask,
    Permute,
    ReduceScatter,
    Step,
    UpdateHalo,
)
from shard_dialect.model import Grid, Reduction, Sharding

DTYPE = np.dtype(np.int32)
Array = NDArray[np.int32]
Axes = tuple[int, ...]
Shape = tuple[int, ...]

COMBINE: dict[Reduction, Callable[[Array, Array], Array]] = {
    "sum": np.add,
    "max": np.maximum,
    "min": np.minimum,
    "product": np.multiply,
    "bitwise_and": np.bitwise_and,
    "bitwise_or": np.bitwise_or,
    "bitwise_xor": np.bitwise_xor,
}
KINDS = tuple(COMBINE)
"""All but averages, of which integers have none."""


def alone(kind: Reduction) -> int:
    """What changes nothing."""
    info = np.iinfo(DTYPE)
    bits = {"bitwise_and": -1, "bitwise_or": 0, "bitwise_xor": 0}
    return {"sum": 0, "product": 1, "max": info.min, "min": info.max, **bits}[kind]


def halo_of(sharding: Sharding, dim: int) -> tuple[int, int]:
    low, high = (sharding.halos[dim] if sharding.halos else ()) or (0, 0)
    assert None not in (low, high), "known before the program runs"
    return low or 0, high or 0


def shard_size(size: int, axes: Axes, grid: Grid) -> int:
    return -(-size // grid.axes_size(axes))


def shards_of(whole: Array, sharding: Sharding, grid: Grid) -> list[Array]:
    """What each device has of `whole`."""
    return _shards_of(whole.tobytes(), whole.shape, sharding, grid)


@lru_cache(1 << 12)
def _shards_of(data: bytes, shape: Shape, sharding: Sharding, grid: Grid) -> list[Array]:
    whole = np.frombuffer(data, DTYPE).reshape(shape)
    return [cut(whole, sharding, rank, grid) for rank in range(grid.size)]


def cut(array: Array, sharding: Sharding, rank: int, grid: Grid) -> Array:
    """The shard of device `rank`: shorter, or empty, at the end of what does not divide."""
    at = grid.coordinates(rank)
    for dim, axes in enumerate(sharding.split_axes):
        size, place = shard_size(array.shape[dim], axes, grid), 0
        for axis in axes:
            place = place * grid.axes_size((axis,)) + at[axis]
        halo = halo_of(sharding, dim)
        if any(halo):
            ends = [halo if each == dim else (0, 0) for each in range(array.ndim)]
            array = np.pad(array, ends, constant_values=alone(sharding.fill))
        offsets = sharding.offsets[dim] if sharding.offsets else ()
        if offsets:
            array = between(array, dim, offsets[place], offsets[place + 1])
        else:
            array = take(array, dim, place, size, sum(halo))
    return array


def take(array: Array, dim: int, place: int, size: int, more: int = 0) -> Array:
    """Shard number `place` of those of `size` along `dim`, and some `more`."""
    return array[(slice(None),) * dim + (slice(place * size, (place + 1) * size + more),)]


def between(array: Array, dim: int, begin: int | None, end: int | None) -> Array:
    """The elements from `begin` to `end` along `dim`."""
    return array[(slice(None),) * dim + (slice(begin, end),)]


def last(array: Array, dim: int, size: int) -> Array:
    """The last `size` elements along `dim`."""
    return (
        take(array, dim, 0, size)
        if size == 0
        else np.flip(take(np.flip(array, dim), dim, 0, size), dim)
    )


def addends(whole: Array, count: int, kind: Reduction, random: np.random.Generator) -> list[Array]:
    """`count` random arrays that `kind` combines to `whole`."""
    if kind == "sum":
        parts = [random.integers(-100, 100, whole.shape, DTYPE) for _ in range(count - 1)]
        return [*parts, whole - sum(parts, np.zeros_like(whole))]
    if kind == "product":
        signs = [random.choice(np.array([-1, 1], DTYPE), whole.shape) for _ in range(count - 1)]
        return [*signs, whole * reduce(np.multiply, signs, np.ones_like(whole))]
    if kind == "bitwise_xor":
        parts = [random.integers(-100, 100, whole.shape, DTYPE) for _ in range(count - 1)]
        return [*parts, reduce(np.bitwise_xor, parts, whole)]
    off = random.integers(1, 100, (count, *whole.shape), DTYPE)
    owner = random.integers(0, count, whole.shape)
    np.put_along_axis(off, owner[np.newaxis], 0, axis=0)
    away: dict[Reduction, Callable[[Array], Array]] = {
        "max": lambda each: whole - each,
        "min": lambda each: whole + each,
        "bitwise_and": lambda each: whole | each,
        "bitwise_or": lambda each: whole & ~each,
    }
    return [away[kind](each) for each in off]


def spread(whole: Array, sharding: Sharding, grid: Grid, seed: int = 0) -> list[Array]:
    """The array of each device under `sharding`, which along partial axes combine to `whole`."""
    if not sharding.partial:
        return shards_of(whole, sharding, grid)
    random = np.random.default_rng(seed)
    parts = addends(whole, grid.axes_size(sharding.partial), sharding.reduction, random)
    return [
        cut(parts[grid.index_along(rank, sharding.partial)], sharding, rank, grid)
        for rank in range(grid.size)
    ]


def combine(arrays: Sequence[Array], kind: Reduction) -> Array:
    return reduce(COMBINE[kind], arrays)


def exchanged(step: Exchange, arrays: Sequence[Array], shapes: Sequence[Shape]) -> list[Array]:
    """What each member gets, message by message; nobody's elements are 1 << 20."""
    results = [np.full(shape, 1 << 20, DTYPE) for shape in shapes]
    for each in step.plan.rounds:
        ends = [(message.sender, message.receiver) for message in each.messages]
        assert all(len(set(ranks)) == len(ends) for ranks in zip(*ends, strict=True))
        for message in each.messages:
            assert all(a <= b for a, b in zip(message.shape, each.shape, strict=True))
            taken, put = (
                tuple(map(slice, at, map(sum, zip(at, message.shape, strict=True))))
                for at in (message.taken_at, message.put_at)
            )
            results[message.receiver][put] = arrays[message.sender][taken]
    return results


def slices(step: AllSlice, arrays: Sequence[Array], size: int) -> list[Array]:
    """What each member keeps of its array."""
    dim, halo = step.dim, step.halo
    if step.offsets:
        ends = pairwise(step.offsets)
        return [between(each, dim, *at) for each, at in zip(arrays, ends, strict=True)]
    past = [halo if each == dim else (0, 0) for each in range(arrays[0].ndim)]
    wide = [np.pad(each, past, constant_values=alone(step.fill)) for each in arrays]
    return [take(each, dim, place, size, sum(halo)) for place, each in enumerate(wide)]


def on_group(step: Step, arrays: Sequence[Array], size: int) -> list[Array]:
    """What each member of one device group holds after `step`, in the group's order.

    A dimension that the step splits is in shards of `size` then.
    """
    n = len(arrays)
    match step:
        case AllGather(dim):
            return [np.concatenate(arrays, dim)] * n
        case AllSlice():
            return slices(step, arrays, size)
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
            return [arrays[0], *(np.full_like(each, alone(kind)) for each in arrays[1:])]
        case UpdateHalo(dim, _, low, high, fill):
            past = np.full_like(arrays[0], alone(fill))
            row = [past, *arrays, past]
            return [
                np.concatenate([last(before, dim, low), each, take(after, dim, 0, high)], dim)
                for before, each, after in zip(row, arrays, row[2:], strict=False)
            ]
        case CropHalo():
            raise AssertionError("what is left depends on the halo")


def split_dim(step: Step) -> int | None:
    match step:
        case AllSlice(dim) | ReduceScatter(dim) | AllToAll(_, dim):
            return dim
    return None


def on_grid(
    step: Step, held: Sequence[Array], now: Sharding, shape: Shape, grid: Grid
) -> list[Array]:
    """What the devices hold after `step`, if a tensor of `shape` lies as `now` before."""
    if isinstance(step, CropHalo):
        low, high = halo_of(now, step.dim)
        size = held[0].shape[step.dim] - low + step.low - high + step.high
        begin = (slice(None),) * step.dim + (slice(low - step.low, None),)
        return [take(array[begin], step.dim, 0, size) for array in held]
    dim = split_dim(step)
    size = 0 if dim is None else shard_size(shape[dim], step.after(now).split_axes[dim], grid)
    after = dict[int, Array]()
    if isinstance(step, Exchange):
        shapes = [
            cut(whole_array(shape), step.target, rank, grid).shape for rank in range(grid.size)
        ]
        for group in grid.groups(step.axes):
            arrays = [held[rank] for rank in group]
            after |= zip(group, exchanged(step, arrays, [shapes[r] for r in group]), strict=True)
        return [after[rank] for rank in range(grid.size)]
    for group in grid.groups(step.axes):
        after |= zip(group, on_group(step, [held[rank] for rank in group], size), strict=True)
    return [after[rank] for rank in range(grid.size)]


def held_by(now: Sharding, shape: Shape, grid: Grid) -> list[int]:
    """The shape of the largest shard."""
    held = [
        shard_size(size, now.split_axes[dim], grid) + sum(halo_of(now, dim))
        for dim, size in enumerate(shape)
    ]
    for dim, offsets in enumerate(now.offsets):
        if offsets:
            held[dim] = max((end or 0) - (begin or 0) for begin, end in pairwise(offsets))
    return held


def bytes_of(step: Step, now: Sharding, shape: Shape, grid: Grid) -> Fraction:
    """What one device moves: of the largest shard, padded to what is cut evenly."""
    n = grid.axes_size(step.axes)
    after = step.after(now)
    held = held_by(now, shape, grid)
    dim = split_dim(step)
    if dim is not None:
        held[dim] = n * shard_size(shape[dim], after.split_axes[dim], grid)
    operand = prod(held) * DTYPE.itemsize
    match step:
        case AllSlice() | Mask() | CropHalo():
            return Fraction(0)
        case AllGather():
            return Fraction((n - 1) * operand)
        case AllReduce():
            return Fraction(2 * (n - 1) * operand, n)
        case ReduceScatter() | AllToAll():
            return Fraction((n - 1) * operand, n)
        case Permute():
            return Fraction(operand if n > 1 else 0)
        case Exchange():
            sent = [
                each
                for each in step.plan.rounds
                if any(message.sender != message.receiver for message in each.messages)
            ]
            return Fraction(sum(prod(each.shape) for each in sent) * DTYPE.itemsize)
        case UpdateHalo(dim, _, low, high):
            return Fraction(operand // held[dim] * (low + high) if n > 1 else 0)


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
    """Whether each device's array, combined along the partial axes, is its shard of `whole`."""
    return all(
        np.array_equal(
            combine(
                [held[member] for member in grid.group_of(rank, sharding.partial)],
                sharding.reduction,
            ),
            shard,
        )
        for rank, shard in enumerate(shards_of(whole, sharding, grid))
    )


def whole_array(shape: Shape) -> Array:
    return np.random.default_rng(1).integers(-1000, 1000, shape, DTYPE)


def lay(*dims: Axes, partial: Axes = (), kind: Reduction = "sum", grid: str = "g") -> Sharding:
    return Sharding(grid, dims, partial, kind)
