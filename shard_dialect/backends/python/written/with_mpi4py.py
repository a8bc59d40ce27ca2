"""Helpers of emitted programs: collectives and others, over numpy and mpi4py.

`emit` copies the functions that a program uses into its file, so they are short and
readable there.
"""

from __future__ import annotations

import contextlib
import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
from mpi4py import MPI

rank = MPI.COMM_WORLD.Get_rank()


def join(grid: np.ndarray, *axes: int) -> MPI.Comm:
    """The devices that differ from this one along `axes` only, the last one fastest."""
    index = [int(each) for each in np.argwhere(grid == rank)[0]]
    key = 0
    for axis in axes:
        key = key * grid.shape[axis] + index[axis]
        index[axis] = 0
    color = int(np.ravel_multi_index(tuple(index), grid.shape))
    return MPI.COMM_WORLD.Split(color, key)


def memory(x: np.ndarray) -> np.ndarray:
    """The bytes of a contiguous array: with them, any elements can be sent."""
    return x.reshape(-1).view(np.uint8)


def all_gather(x: np.ndarray, group: MPI.Comm, dim: int) -> np.ndarray:
    """The members' tensors, one after another along `dim`."""
    by_member = np.empty((group.size, *x.shape), x.dtype)
    group.Allgather(memory(np.asarray(x, order="C")), memory(by_member))
    return np.concatenate(list(by_member), dim)


def all_slice(x: np.ndarray, group: MPI.Comm, dim: int) -> np.ndarray:
    """This member's slice of a tensor that all have: nothing is sent."""
    return np.split(x, group.size, dim)[group.rank]


def all_reduce(x: np.ndarray, group: MPI.Comm, op: MPI.Op = MPI.SUM) -> np.ndarray:
    """The members' tensors, added (or what `op` does)."""
    x = np.asarray(x, order="C")
    result = np.empty_like(x)
    group.Allreduce(x, result, op)
    return result


def reduce_scatter(x: np.ndarray, group: MPI.Comm, dim: int, op: MPI.Op = MPI.SUM) -> np.ndarray:
    """This member's slice of the members' tensors, added (or what `op` does)."""
    by_member = np.ascontiguousarray(np.stack(np.split(x, group.size, dim)))
    result = np.empty(by_member.shape[1:], x.dtype)
    group.Reduce_scatter_block(by_member, result, op)
    return result


def all_to_all(x: np.ndarray, group: MPI.Comm, split: int, concat: int) -> np.ndarray:
    """This member's slice along `split` of each tensor, joined along `concat`."""
    by_member = np.ascontiguousarray(np.stack(np.split(x, group.size, split)))
    result = np.empty_like(by_member)
    group.Alltoall(memory(by_member), memory(result))
    return np.concatenate(list(result), concat)


def joined(
    parts: list[np.ndarray], join: Callable[[np.ndarray, np.ndarray], np.ndarray]
) -> np.ndarray:
    """The tensors joined by a function of two; 16 bits in f32, and rounded once."""
    dtype = parts[0].dtype
    if dtype.itemsize == 2 and dtype.kind in "fV":
        parts = [each.astype(np.float32) for each in parts]
    with np.errstate(all="ignore"):
        return functools.reduce(join, parts).astype(dtype)


def reduce_scatter_by(
    x: np.ndarray,
    group: MPI.Comm,
    dim: int,
    join: Callable[[np.ndarray, np.ndarray], np.ndarray],
) -> np.ndarray:
    """This member's slice of the members' tensors, joined by a function of two."""
    slices = np.split(all_to_all(x, group, dim, dim), group.size, dim)
    return joined(slices, join)


def all_reduce_by(
    x: np.ndarray,
    group: MPI.Comm,
    join: Callable[[np.ndarray, np.ndarray], np.ndarray],
) -> np.ndarray:
    """The members' tensors, joined by a function of two: each member joins a slice."""
    flat = np.zeros(-(-x.size // group.size) * group.size, x.dtype)
    flat[: x.size] = x.reshape(-1)
    result = all_gather(reduce_scatter_by(flat, group, 0, join), group, 0)
    return result[: x.size].reshape(x.shape)


def reduce_to_by(
    x: np.ndarray,
    group: MPI.Comm,
    root: int,
    join: Callable[[np.ndarray, np.ndarray], np.ndarray],
) -> np.ndarray:
    """To `root` the members' tensors, joined by a function of two; else zeros."""
    by_member = list(gather_to(x[None], group, 0, root))
    return joined(by_member, join) if group.rank == root else np.zeros_like(x)


def swap(x: np.ndarray, group: MPI.Comm, to: int, received: np.ndarray, source: int) -> None:
    """Send an array to a member while receiving one from another."""
    group.Sendrecv(memory(x), to, 0, memory(received), source, 0)


def permute(x: np.ndarray, group: MPI.Comm, to: list[int]) -> np.ndarray:
    """Send member i's tensor to `to[i]`, nowhere if -1; else zeros."""
    x = np.asarray(x, order="C")
    result = np.zeros_like(x)
    dest = to[group.rank] if to[group.rank] >= 0 else MPI.PROC_NULL
    source = to.index(group.rank) if group.rank in to else MPI.PROC_NULL
    swap(x, group, dest, result, source)
    return result


def update_halo(x: np.ndarray, group: MPI.Comm, dim: int, low: int, high: int) -> np.ndarray:
    """The same, with the neighbours' elements as first `low` and last `high` ones."""
    x = np.moveaxis(x.copy(), dim, 0)
    size = len(x) - low - high
    for i in range(1, -(-max(low, high) // size) + 1):
        before = group.rank - i if group.rank >= i else MPI.PROC_NULL
        after = group.rank + i if group.rank + i < group.size else MPI.PROC_NULL
        down = min(max(low - (i - 1) * size, 0), size)
        up = min(max(high - (i - 1) * size, 0), size)
        begin, end = low - (i - 1) * size, low + i * size
        received = x[begin - down : begin].copy()
        sent = x[low + size - down : low + size].copy()
        swap(sent, group, after, received, before)
        x[begin - down : begin] = received
        received, sent = x[end : end + up].copy(), x[low : low + up].copy()
        swap(sent, group, before, received, after)
        x[end : end + up] = received
    return np.moveaxis(x, 0, dim)


def broadcast_from(x: np.ndarray, group: MPI.Comm, root: int) -> np.ndarray:
    """The tensor of member `root`."""
    result = np.array(x, order="C")
    group.Bcast(memory(result), root)
    return result


def gather_to(x: np.ndarray, group: MPI.Comm, dim: int, root: int) -> np.ndarray:
    """To `root` the members' tensors, one after another along `dim`; else zeros."""
    by_member = np.zeros((group.size, *x.shape), x.dtype)
    values = memory(by_member) if group.rank == root else None
    group.Gather(memory(np.asarray(x, order="C")), values, root)
    return np.concatenate(list(by_member), dim)


def scatter_from(x: np.ndarray, group: MPI.Comm, dim: int, root: int) -> np.ndarray:
    """This member's slice, along `dim`, of the tensor of `root`."""
    by_member = np.ascontiguousarray(np.stack(np.split(x, group.size, dim)))
    result = np.empty(by_member.shape[1:], x.dtype)
    group.Scatter(memory(by_member), memory(result), root)
    return result


def reduce_to(x: np.ndarray, group: MPI.Comm, root: int, op: MPI.Op = MPI.SUM) -> np.ndarray:
    """To `root` the members' tensors, added (or what `op` does); else zeros."""
    x = np.asarray(x, order="C")
    result = np.zeros_like(x)
    group.Reduce(x, result if group.rank == root else None, op, root)
    return result


on_the_way: list[MPI.Request] = []  # MPI reads what is sent until it is received


def send(x: np.ndarray, group: MPI.Comm, to: int) -> None:
    """Send the tensor to member `to`, without waiting until it is received."""
    on_the_way[:] = [each for each in on_the_way if not each.Test()]
    on_the_way.append(group.Isend(memory(np.asarray(x, order="C")), to, tag=1))


def receive(like: np.ndarray, group: MPI.Comm, source: int = MPI.ANY_SOURCE) -> np.ndarray:
    """Receive from member `source`, or any: a tensor like `like`."""
    result = np.empty(like.shape, like.dtype)
    group.Recv(memory(result), source, tag=1)
    return result


def mask(x: np.ndarray, group: MPI.Comm, other: complex) -> np.ndarray:
    """The tensor on the group's first member, `other` everywhere else."""
    return x if group.rank == 0 else np.full_like(x, other)


def quotient(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """`a / b` of integers, towards zero; -1 where `b` is 0."""
    with np.errstate(all="ignore"):
        return np.where(b == 0, ~(a & 0), (a - np.fmod(a, b)) // b)


def rest(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The rest of `a / b` of integers, with the sign of `a`; `a` where `b` is 0."""
    with np.errstate(all="ignore"):
        return np.where(b == 0, a, np.fmod(a, b))


def erf(x: np.ndarray) -> np.ndarray:
    """The error function, which numpy lacks."""
    return np.vectorize(math.erf, [float])(x).astype(x.dtype)


def erfc(x: np.ndarray) -> np.ndarray:
    """1 less the error function."""
    return np.vectorize(math.erfc, [float])(x).astype(x.dtype)


def conv(
    x: np.ndarray, w: np.ndarray, strides: list[int], dilation: list[int], groups: int
) -> np.ndarray:
    """A convolution: `x` is batch, features, space; `w` is features, inputs, space."""
    size = [(k - 1) * d + 1 for k, d in zip(w.shape[2:], dilation, strict=True)]
    space = tuple(range(2, x.ndim))
    windows = np.lib.stride_tricks.sliding_window_view(x, size, space)
    steps = tuple(slice(None, None, each) for each in strides)
    holes = tuple(slice(None, None, each) for each in dilation)
    windows = windows[(slice(None), slice(None), *steps, *holes)]
    slices = [
        np.tensordot(shard, kernel, ((1, *range(x.ndim, 2 * x.ndim - 2)), (1, *space)))
        for shard, kernel in zip(np.split(windows, groups, 1), np.split(w, groups, 0), strict=True)
    ]
    return np.moveaxis(np.concatenate(slices, -1), -1, 1)


def folded(
    join: Callable[..., Any],
    parts: list[np.ndarray],
    starts: list[np.ndarray],
    dims: list[int],
) -> list[np.ndarray]:
    """The elements along `dims` joined to the starts, in order, by a function of both."""
    rest = [dim for dim in range(parts[0].ndim) if dim not in dims]
    rows = [x.transpose(*dims, *rest) for x in parts]
    kept, values = rows[0].shape[len(dims) :], tuple(starts)
    for at in np.ndindex(*rows[0].shape[: len(dims)]):
        made = join(*values, *(x[at] for x in rows))
        values = made if isinstance(made, tuple) else (made,)
    return [np.broadcast_to(each, kept) for each in values]


def selected(
    select: Callable[[np.ndarray, np.ndarray], np.ndarray], x: np.ndarray, places: np.ndarray
) -> np.ndarray:
    """Of each window the place of the element that `select` prefers to others; not at -1."""

    def better(
        a: np.ndarray, i: np.ndarray, b: np.ndarray, j: np.ndarray
    ) -> tuple[np.ndarray, ...]:
        takes = (j >= 0) & ((i < 0) | ~select(a, b))
        return np.where(takes, b, a), np.where(takes, j, i)

    starts = [np.zeros((), x.dtype), np.full((), -1)]
    return folded(better, [x, places], starts, [*range(x.ndim // 2, x.ndim)])[1]


def joined_at(
    join: Callable[..., Any],
    parts: list[np.ndarray],
    places: np.ndarray,
    updates: list[np.ndarray],
) -> list[np.ndarray]:
    """The tensors with updates joined to elements, in order: those of one place in rounds."""
    lines, places = [x.copy().reshape(-1) for x in parts], places.reshape(-1)
    order = np.argsort(places, kind="stable")
    turn = np.arange(len(places)) - np.searchsorted(places[order], places[order])
    for number in range(len({*turn.tolist()})):
        now = order[turn == number]
        at = places[now]
        made = join(*(x[at] for x in lines), *(x.reshape(-1)[now] for x in updates))
        for x, value in zip(lines, made if isinstance(made, tuple) else [made], strict=True):
            x[at] = value
    return [line.reshape(x.shape) for line, x in zip(lines, parts, strict=True)]


def cholesky(x: np.ndarray) -> np.ndarray:
    """The lower triangles of matrices; NaN of those that are not positive definite."""
    result = np.full(x.shape, np.nan, x.dtype)
    for i in np.ndindex(*x.shape[:-2]):
        with contextlib.suppress(np.linalg.LinAlgError):
            found = np.linalg.cholesky(x[i])
            if not np.isnan(np.diagonal(found)).any():  # which it may not see
                result[i] = found
    return result


def triangular_solve(a: np.ndarray, b: np.ndarray, lower: bool, unit: bool) -> np.ndarray:
    """`x` of `a @ x = b`, where `a` is a triangle, whose diagonal is 1 if it is `unit`."""
    x, size = b.copy(), b.shape[-2]
    for i in range(size) if lower else reversed(range(size)):
        known = slice(0, i) if lower else slice(i + 1, size)
        x[..., i, :] -= (a[..., i, None, known] @ x[..., known, :])[..., 0, :]
        if not unit:
            x[..., i, :] /= a[..., i, i, None]
    return x


def reduce_precision(x: np.ndarray, given: tuple[int, int], kept: tuple[int, int]) -> np.ndarray:
    """Floats rounded to fewer bits of exponents and mantissas than given."""
    bits, (exponent, mantissa) = x.view(f"i{x.itemsize}"), given
    unit = 1 << max(mantissa - kept[1], 0)
    if unit > 1:
        bits = (bits + ((unit >> 1) - 1 + (bits // unit & 1))) & -unit
    if kept[0] < exponent:
        top, sign = ((1 << exponent) - 1) << mantissa, bits & -(1 << (8 * x.itemsize - 1))
        middle, reach = (1 << (exponent - 1)) - 1, (1 << (kept[0] - 1)) - 1
        large = (bits & top) > (middle + reach) << mantissa
        small = (bits & top) <= (middle - reach) << mantissa
        bits = np.where(large, sign | top, np.where(small, sign, bits))
    return np.where(np.isnan(x), x, bits.view(x.dtype))


def windows(x: np.ndarray, size: list[int], strides: list[int]) -> np.ndarray:
    """The windows of `size` of `x`: the positions in one are the last dimensions."""
    values = np.lib.stride_tricks.sliding_window_view(x, size)
    return values[tuple(slice(None, None, each) for each in strides)]


def least_index(
    x: np.ndarray, positions: np.ndarray, at: np.ndarray, dim: int, start: float
) -> np.ndarray:
    """The least position of an element that equals `at` (NaN too); `start` has 0."""
    at = np.expand_dims(at, dim)
    values, own = np.take_along_axis(x, at, dim), np.take_along_axis(positions, at, dim)
    least = np.where(x == values, positions, own).min(dim)
    return np.where(np.squeeze(values, dim) == start, np.minimum(least, 0), least)


def total_order(x: np.ndarray) -> np.ndarray:
    """Integers that ascend by IEEE 754's total order: -NaN, ..., -0, 0, ..., NaN."""
    bits = x.view(f"i{x.itemsize}")
    return bits ^ ((bits >> (8 * x.itemsize - 1)) & np.iinfo(bits.dtype).max)


def count_of_ones(x: np.ndarray) -> np.ndarray:
    """How many bits of each integer are 1."""
    return sum((x >> bit & 1 for bit in range(8 * x.itemsize)), np.zeros_like(x))


def leading_zeros(x: np.ndarray) -> np.ndarray:
    """How many bits of each integer are 0 before its first 1."""
    return sum(((x >> bit == 0).astype(x.dtype) for bit in range(8 * x.itemsize)), np.zeros_like(x))


def shard_slices(
    grid: np.ndarray, rank: int, shape: list[int], split: list[list[int]]
) -> tuple[slice, ...]:
    """A device's slice of a tensor whose dimensions are split along grid axes."""
    index, values = np.argwhere(grid == rank)[0], []
    for size, axes in zip(shape, split, strict=True):
        shard, slices = 0, 1
        for axis in axes:
            shard = shard * grid.shape[axis] + int(index[axis])
            slices *= grid.shape[axis]
        length = -(-size // slices)
        values.append(slice(min(shard * length, size), min((shard + 1) * length, size)))
    return tuple(values)


def take(
    global_array: np.ndarray,
    grid: np.ndarray,
    split: list[list[int]],
    local: list[int],
) -> np.ndarray:
    """This device's shard, padded with zeros to the local shape."""
    shard = np.zeros(local, global_array.dtype)
    index = global_array[shard_slices(grid, rank, list(global_array.shape), split)]
    shard[tuple(map(slice, index.shape))] = index
    return shard


def put(
    shards: list[np.ndarray | None],
    grid: np.ndarray,
    shape: list[int],
    split: list[list[int]],
) -> np.ndarray:
    """The global tensor of all devices' `shards`, which are listed by rank."""
    first = next(each for each in shards if each is not None)
    global_array = np.zeros(shape, first.dtype)
    for rank, shard in enumerate(shards):
        if shard is not None:
            index = shard_slices(grid, rank, shape, split)
            global_array[index] = shard[tuple(map(slice, global_array[index].shape))]
    return global_array


def draw(shape: list[int], dtype: type, generator: np.random.Generator) -> np.ndarray:
    """Random numbers: normally distributed, or small integers."""
    if np.dtype(dtype).kind == "c":
        pairs = generator.standard_normal((2, *shape))
        return (pairs[0] + 1j * pairs[1]).astype(dtype)
    if np.dtype(dtype).kind not in "biu":
        return generator.standard_normal(shape).astype(dtype)
    return generator.integers(0, 2 if dtype == np.bool_ else 5, shape).astype(dtype)
