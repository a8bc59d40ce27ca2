"""Helpers of emitted programs: collectives and others, over torch.distributed.

`emit` copies the functions that a program uses into its file, so they are short and
readable there. Tensors stay on their device.
"""

from __future__ import annotations

import functools
import math
import os
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor

has_gpu = torch.cuda.device_count() >= int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
local_rank = int(os.environ.get("LOCAL_RANK", "0"))
device = torch.device("cuda", local_rank) if has_gpu else torch.device("cpu")
if has_gpu:
    torch.cuda.set_device(device)
    torch.backends.cudnn.allow_tf32 = False  # 16 bits are added up in f32
    torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False
    torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = False
if not dist.is_initialized():
    if "RANK" not in os.environ:
        raise SystemExit("error: start the ranks by torchrun, as this file's first lines show")
    dist.init_process_group("nccl" if has_gpu else "gloo")
rank = dist.get_rank()


@dataclass
class Group:
    """Devices in an order of their own; `order` has each one's position in torch's."""

    handle: dist.ProcessGroup
    ranks: list[int]
    order: list[int]
    rank: int
    size: int


def join(grid: np.ndarray, *axes: int) -> Group:
    """The devices that differ from this one along `axes` only, the last one fastest."""
    size = math.prod(grid.shape[axis] for axis in axes)
    by_member = np.moveaxis(grid, axes, range(-len(axes), 0)).reshape(-1, size)
    forever = timedelta(days=365)  # a rank may compute for as long as it takes
    for row in by_member.tolist():
        handle = dist.new_group(sorted(row), timeout=forever)
        if rank in row:
            order = [sorted(row).index(each) for each in row]
            own_group = Group(handle, row, order, row.index(rank), len(row))
    return own_group


def memory(x: Tensor) -> Tensor:
    """The bytes of a contiguous tensor: with them, any elements can be sent."""
    flat = x.as_strided((x.numel(),), (1,))  # one element of a broadcast scalar has strides of 0
    return flat.view(torch.uint8)


@dataclass
class Started:
    """A collective that runs beside what this device computes, and its result once it is done."""

    work: Any
    result: Callable[[], Tensor]


def finish(started: Started) -> Tensor:
    """Wait for a collective."""
    started.work.wait()
    return started.result()


def start_all_gather(x: Tensor, group: Group, dim: int) -> Started:
    """The members' tensors, one after another along `dim`."""
    x = x.contiguous()
    by_member = [torch.empty_like(x) for _ in range(group.size)]
    received = list(map(memory, by_member))
    work = dist.all_gather(received, memory(x), group=group.handle, async_op=True)
    return Started(work, lambda: torch.cat([by_member[each] for each in group.order], dim))


def all_gather(x: Tensor, group: Group, dim: int) -> Tensor:
    """The members' tensors, one after another along `dim`."""
    return finish(start_all_gather(x, group, dim))


def all_slice(x: Tensor, group: Group, dim: int) -> Tensor:
    """This member's slice of a tensor that all have: nothing is sent."""
    return x.chunk(group.size, dim)[group.rank]


def start_all_reduce(x: Tensor, group: Group, op: dist.ReduceOp = dist.ReduceOp.SUM) -> Started:
    """The members' tensors, added (or what `op` does)."""
    result = x.clone(memory_format=torch.contiguous_format)
    work = dist.all_reduce(result, op, group=group.handle, async_op=True)
    return Started(work, lambda: result)


def all_reduce(x: Tensor, group: Group, op: dist.ReduceOp = dist.ReduceOp.SUM) -> Tensor:
    """The members' tensors, added (or what `op` does)."""
    return finish(start_all_reduce(x, group, op))


def start_reduce_scatter(
    x: Tensor, group: Group, dim: int, op: dist.ReduceOp = dist.ReduceOp.SUM
) -> Started:
    """This member's slice of the members' tensors, added (or what `op` does)."""
    slices = x.chunk(group.size, dim)
    by_member = [slices[group.order.index(i)].contiguous() for i in range(group.size)]
    result = torch.empty_like(by_member[0])
    work = dist.reduce_scatter(result, by_member, op, group=group.handle, async_op=True)
    return Started(work, lambda: result)


def reduce_scatter(
    x: Tensor, group: Group, dim: int, op: dist.ReduceOp = dist.ReduceOp.SUM
) -> Tensor:
    """This member's slice of the members' tensors, added (or what `op` does)."""
    return finish(start_reduce_scatter(x, group, dim, op))


def start_all_to_all(x: Tensor, group: Group, split: int, concat: int) -> Started:
    """This member's slice along `split` of each tensor, joined along `concat`."""
    slices = x.chunk(group.size, split)
    by_member = torch.stack([slices[group.order.index(i)] for i in range(group.size)])
    result = torch.empty_like(by_member)
    received, sent = memory(result), memory(by_member)
    work = dist.all_to_all_single(received, sent, group=group.handle, async_op=True)
    return Started(work, lambda: torch.cat([result[each] for each in group.order], concat))


def all_to_all(x: Tensor, group: Group, split: int, concat: int) -> Tensor:
    """This member's slice along `split` of each tensor, joined along `concat`."""
    return finish(start_all_to_all(x, group, split, concat))


def joined(parts: list[Tensor], join: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
    """The tensors joined by a function of two; 16 bits in f32, and rounded once."""
    dtype = parts[0].dtype
    if dtype in (torch.float16, torch.bfloat16):
        parts = [each.to(torch.float32) for each in parts]
    return functools.reduce(join, parts).to(dtype)


def start_reduce_scatter_by(
    x: Tensor, group: Group, dim: int, join: Callable[[Tensor, Tensor], Tensor]
) -> Started:
    """This member's slice of the members' tensors, joined by a function of two."""
    sent = start_all_to_all(x, group, dim, dim)
    return Started(sent.work, lambda: joined(list(sent.result().chunk(group.size, dim)), join))


def reduce_scatter_by(
    x: Tensor, group: Group, dim: int, join: Callable[[Tensor, Tensor], Tensor]
) -> Tensor:
    """This member's slice of the members' tensors, joined by a function of two."""
    return finish(start_reduce_scatter_by(x, group, dim, join))


def all_reduce_by(x: Tensor, group: Group, join: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
    """The members' tensors, joined by a function of two: each member joins a slice."""
    count = -(-x.numel() // group.size) * group.size
    flat = torch.cat([x.reshape(-1), x.new_zeros(count - x.numel())])
    result = all_gather(reduce_scatter_by(flat, group, 0, join), group, 0)
    return result[: x.numel()].reshape(x.shape)


def reduce_to_by(
    x: Tensor, group: Group, root: int, join: Callable[[Tensor, Tensor], Tensor]
) -> Tensor:
    """To `root` the members' tensors, joined by a function of two; else zeros."""
    by_member = list(gather_to(x[None], group, 0, root).unbind(0))
    return joined(by_member, join) if group.rank == root else torch.zeros_like(x)


def exchange(x: Tensor, like: Tensor, group: Group, to: int, source: int) -> Tensor:
    """Send `x` to a member; receive a tensor like `like` from another. -1: none."""
    result, talk = like.clone(memory_format=torch.contiguous_format), []
    if to == source == group.rank:
        return x
    if to >= 0:
        peer = group.ranks[to]
        talk.append(dist.P2POp(dist.isend, memory(x.contiguous()), peer, group.handle))
    if source >= 0:
        peer = group.ranks[source]
        talk.append(dist.P2POp(dist.irecv, memory(result), peer, group.handle))
    for work in dist.batch_isend_irecv(talk) if talk else []:
        work.wait()
    return result


def permute(x: Tensor, group: Group, to: list[int]) -> Tensor:
    """Send member i's tensor to `to[i]`, nowhere if -1; else zeros."""
    source = to.index(group.rank) if group.rank in to else -1
    return exchange(x, torch.zeros_like(x), group, to[group.rank], source)


def update_halo(x: Tensor, group: Group, dim: int, low: int, high: int) -> Tensor:
    """The same, with the neighbours' elements as first `low` and last `high` ones."""
    x = x.clone().movedim(dim, 0)
    size = len(x) - low - high
    for i in range(1, -(-max(low, high) // size) + 1):
        before = group.rank - i if group.rank >= i else -1
        after = group.rank + i if group.rank + i < group.size else -1
        down = min(max(low - (i - 1) * size, 0), size)
        up = min(max(high - (i - 1) * size, 0), size)
        begin, end = low - (i - 1) * size, low + i * size
        old, sent = x[begin - down : begin], x[low + size - down : low + size]
        x[begin - down : begin] = exchange(sent, old, group, after, before)
        old, sent = x[end : end + up], x[low : low + up]
        x[end : end + up] = exchange(sent, old, group, before, after)
    return x.movedim(0, dim)


def broadcast_from(x: Tensor, group: Group, root: int) -> Tensor:
    """The tensor of member `root`."""
    result = x.clone(memory_format=torch.contiguous_format)
    dist.broadcast(memory(result), group.ranks[root], group=group.handle)
    return result


def gather_to(x: Tensor, group: Group, dim: int, root: int) -> Tensor:
    """To `root` the members' tensors, one after another along `dim`; else zeros."""
    x = x.contiguous()
    by_member = [torch.zeros_like(x) for _ in range(group.size)]
    values = list(map(memory, by_member)) if group.rank == root else None
    dist.gather(memory(x), values, group.ranks[root], group=group.handle)
    return torch.cat([by_member[each] for each in group.order], dim)


def scatter_from(x: Tensor, group: Group, dim: int, root: int) -> Tensor:
    """This member's slice, along `dim`, of the tensor of `root`."""
    slices = x.chunk(group.size, dim)
    by_member = [slices[group.order.index(i)].contiguous() for i in range(group.size)]
    result = torch.empty_like(by_member[0])
    sent = list(map(memory, by_member)) if group.rank == root else None
    dist.scatter(memory(result), sent, group.ranks[root], group=group.handle)
    return result


def reduce_to(x: Tensor, group: Group, root: int, op: dist.ReduceOp = dist.ReduceOp.SUM) -> Tensor:
    """To `root` the members' tensors, added (or what `op` does); else zeros."""
    result = x.clone(memory_format=torch.contiguous_format)
    dist.reduce(result, group.ranks[root], op, group=group.handle)
    return result if group.rank == root else torch.zeros_like(result)


on_the_way: list[tuple[dist.Work, Tensor]] = []  # what is sent is kept until received


def send(x: Tensor, group: Group, to: int) -> None:
    """Send the tensor to member `to`, without waiting until it is received."""
    x = x.contiguous()
    on_the_way[:] = [each for each in on_the_way if not each[0].is_completed()]
    work = dist.isend(memory(x), group.ranks[to], group=group.handle, tag=1)
    on_the_way.append((work, x))


def receive(like: Tensor, group: Group, source: int | None = None) -> Tensor:
    """Receive from member `source`, or any: a tensor like `like`."""
    result = torch.empty_like(like, memory_format=torch.contiguous_format)
    origin = None if source is None else group.ranks[source]
    dist.recv(memory(result), origin, group=group.handle, tag=1)
    return result


def mask(x: Tensor, group: Group, other: complex) -> Tensor:
    """The tensor on the group's first member, `other` everywhere else."""
    return x if group.rank == 0 else torch.full_like(x, other)


def quotient(a: Tensor, b: Tensor) -> Tensor:
    """`a / b` of integers, towards zero; -1 where `b` is 0."""
    divisor = torch.where((b == 0) | (b == -1), 1, b)  # the processor ends at others
    result = torch.div(a, divisor, rounding_mode="trunc")
    return torch.where(b == 0, ~(a & 0), torch.where(b == -1, -a, result))


def rest(a: Tensor, b: Tensor) -> Tensor:
    """The rest of `a / b` of integers, with the sign of `a`; `a` where `b` is 0."""
    divisor = torch.where((b == 0) | (b == -1), 1, b)
    return torch.where(b == 0, a, torch.fmod(a, divisor))


def flipped(x: Tensor) -> Tensor:
    """With the other first bit: these are in the order of the unsigned integers."""
    return x ^ torch.iinfo(x.dtype).min


def unsigned_maximum(a: Tensor, b: Tensor) -> Tensor:
    """The larger ones of unsigned integers."""
    return flipped(torch.maximum(flipped(a), flipped(b)))


def unsigned_minimum(a: Tensor, b: Tensor) -> Tensor:
    """The smaller ones of unsigned integers."""
    return flipped(torch.minimum(flipped(a), flipped(b)))


def unsigned_right(x: Tensor, by: Tensor) -> Tensor:
    """The unsigned integers shifted right, by zeros."""
    rest = (x >> 1) & torch.iinfo(x.dtype).max
    return torch.where(by == 0, x, rest >> (by - 1))


def unsigned_quotient(a: Tensor, b: Tensor) -> Tensor:
    """`a / b` of unsigned integers; the largest one where `b` is 0."""
    divisor = torch.where(b > 0, b, 1)
    half = (a >> 1) & torch.iinfo(a.dtype).max
    result = torch.div(half, divisor, rounding_mode="trunc") << 1
    result = result + (flipped(a - result * divisor) >= flipped(divisor))
    large = (flipped(a) >= flipped(b)).to(a.dtype)  # `b` has the first bit
    return torch.where(b < 0, large, torch.where(b == 0, ~(a & 0), result))


def unsigned_rest(a: Tensor, b: Tensor) -> Tensor:
    """The remainder of `a / b` of unsigned integers; `a` where `b` is 0."""
    return a - unsigned_quotient(a, b) * b


def from_unsigned(x: Tensor, dtype: torch.dtype) -> Tensor:
    """Unsigned integers as numbers of another type."""
    bits = 8 * x.element_size()
    if bits < 64:
        return (x.to(torch.int64) & ((1 << bits) - 1)).to(dtype)
    if not dtype.is_floating_point and not dtype.is_complex:
        return x.to(dtype)
    half = ((x >> 1) & torch.iinfo(x.dtype).max) | (x & 1)  # is rounded as all of it
    return torch.where(x < 0, half.to(dtype) * 2, x.to(dtype))


def to_unsigned(x: Tensor, dtype: torch.dtype) -> Tensor:
    """Floats as unsigned integers, which the signed type holds."""
    if dtype != torch.int64:
        return x.to(torch.int64).to(dtype)
    is_large = x >= 2.0**63
    low = torch.where(is_large, x - 2.0**63, x).to(torch.int64)
    return torch.where(is_large, flipped(low), low)


def conv(x: Tensor, w: Tensor, strides: list[int], dilation: list[int], groups: int) -> Tensor:
    """A convolution: `x` is batch, features, space; `w` is features, inputs, space."""
    do = [torch.nn.functional.conv1d, torch.nn.functional.conv2d]
    return [*do, torch.nn.functional.conv3d][x.ndim - 3](x, w, None, strides, 0, dilation, groups)


def fold(join: Callable[[Tensor, Tensor], Tensor], x: Tensor, dims: tuple[int, ...]) -> Tensor:
    """The elements along `dims` joined to one by a function of two."""
    for dim in sorted(dims, reverse=True):
        x = functools.reduce(join, x.unbind(dim))
    return x


def folded(
    join: Callable[..., Tensor], parts: list[Tensor], starts: list[Tensor], dims: list[int]
) -> list[Tensor]:
    """The elements along `dims` joined to the starts, in order, by a function of both."""
    rest = [dim for dim in range(parts[0].ndim) if dim not in dims]
    rows = [x.permute(*dims, *rest) for x in parts]
    kept, values = rows[0].shape[len(dims) :], tuple(starts)
    for at in np.ndindex(*rows[0].shape[: len(dims)]):
        made = join(*values, *(x[at] for x in rows))
        values = made if isinstance(made, tuple) else (made,)
    return [torch.broadcast_to(each, kept) for each in values]


def selected(select: Callable[[Tensor, Tensor], Tensor], x: Tensor, places: Tensor) -> Tensor:
    """Of each window the place of the element that `select` prefers to others; not at -1."""

    def better(a: Tensor, i: Tensor, b: Tensor, j: Tensor) -> tuple[Tensor, ...]:
        takes = (j >= 0) & ((i < 0) | ~select(a, b))
        return torch.where(takes, b, a), torch.where(takes, j, i)

    starts = [x.new_zeros(()), places.new_full((), -1)]
    return folded(better, [x, places], starts, [*range(x.ndim // 2, x.ndim)])[1]


def joined_at(
    join: Callable[..., Any],
    parts: list[Tensor],
    places: Tensor,
    updates: list[Tensor],
) -> list[Tensor]:
    """The tensors with updates joined to elements, in order: those of one place in rounds."""
    lines, places = [x.clone().reshape(-1) for x in parts], places.reshape(-1)
    order = torch.argsort(places, stable=True)
    line = places[order]
    turn = torch.arange(len(places), device=device) - torch.searchsorted(line, line)
    for number in range(len({*turn.tolist()})):
        now = order[turn == number]
        at = places[now]
        made = join(*(x[at] for x in lines), *(x.reshape(-1)[now] for x in updates))
        for x, value in zip(lines, made if isinstance(made, tuple) else [made], strict=True):
            x[at] = value
    return [line.reshape(x.shape) for line, x in zip(lines, parts, strict=True)]


def cholesky(x: Tensor) -> Tensor:
    """The lower triangles of matrices; NaN of those that are not positive definite."""
    result, failed = torch.linalg.cholesky_ex(x)
    fails = (failed != 0) | torch.isnan(result.diagonal(dim1=-2, dim2=-1)).any(-1)
    return torch.where(fails[..., None, None], torch.nan, result)


def reduce_precision(x: Tensor, given: tuple[int, int], kept: tuple[int, int]) -> Tensor:
    """Floats rounded to fewer bits of exponents and mantissas than given."""
    bits, (exponent, mantissa) = (
        x.view({2: torch.int16, 4: torch.int32, 8: torch.int64}[x.itemsize]),
        given,
    )
    unit = 1 << max(mantissa - kept[1], 0)
    if unit > 1:
        bits = (bits + ((unit >> 1) - 1 + (bits // unit & 1))) & -unit
    if kept[0] < exponent:
        top, sign = ((1 << exponent) - 1) << mantissa, bits & -(1 << (8 * x.itemsize - 1))
        middle, reach = (1 << (exponent - 1)) - 1, (1 << (kept[0] - 1)) - 1
        large = (bits & top) > (middle + reach) << mantissa
        small = (bits & top) <= (middle - reach) << mantissa
        bits = torch.where(large, sign | top, torch.where(small, sign, bits))
    return torch.where(torch.isnan(x), x, bits.view(x.dtype))


def windows(x: Tensor, size: list[int], strides: list[int]) -> Tensor:
    """The windows of `size` of `x`: the positions in one are the last dimensions."""
    for dim, (length, step) in enumerate(zip(size, strides, strict=True)):
        x = x.unfold(dim, length, step)
    return x


def least_index(x: Tensor, positions: Tensor, at: Tensor, dim: int, start: float) -> Tensor:
    """The least position of an element that equals `at` (NaN too); `start` has 0."""
    at = at.unsqueeze(dim)
    values, own = x.gather(dim, at), positions.gather(dim, at)
    least = torch.where(x == values, positions, own).amin(dim)
    return torch.where(values.squeeze(dim) == start, least.clamp(max=0), least)


def lexsort(keys: list[Tensor], dim: int) -> Tensor:
    """The permutation of a stable sort by the last key, then the one before."""
    order = torch.argsort(keys[0], dim=dim, stable=True)
    for key in keys[1:]:
        again = torch.argsort(key.gather(dim, order), dim=dim, stable=True)
        order = order.gather(dim, again)
    return order


def total_order(x: Tensor) -> Tensor:
    """Integers that ascend by IEEE 754's total order: -NaN, ..., -0, 0, ..., NaN."""
    dtype = {2: torch.int16, 4: torch.int32, 8: torch.int64}[x.element_size()]
    bits = x.view(dtype)
    return bits ^ ((bits >> (8 * x.element_size() - 1)) & torch.iinfo(dtype).max)


def count_of_ones(x: Tensor) -> Tensor:
    """How many bits of each integer are 1."""
    return sum((x >> bit & 1 for bit in range(8 * x.itemsize)), torch.zeros_like(x))


def leading_zeros(x: Tensor) -> Tensor:
    """How many bits of each integer are 0 before its first 1."""
    return sum(((x >> bit == 0).to(x.dtype) for bit in range(8 * x.itemsize)), torch.zeros_like(x))


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
    global_array: Tensor,
    grid: np.ndarray,
    split: list[list[int]],
    local: list[int],
) -> Tensor:
    """This device's shard, padded with zeros to the local shape."""
    shard = torch.zeros(local, dtype=global_array.dtype)
    index = global_array[shard_slices(grid, rank, list(global_array.shape), split)]
    shard[tuple(map(slice, index.shape))] = index
    return shard.to(device)


def put(
    shards: list[Tensor | None],
    grid: np.ndarray,
    shape: list[int],
    split: list[list[int]],
) -> Tensor:
    """The global tensor of all devices' `shards`, which are listed by rank."""
    first = next(each for each in shards if each is not None)
    global_array = torch.zeros(shape, dtype=first.dtype)
    for rank, shard in enumerate(shards):
        if shard is not None:
            index = shard_slices(grid, rank, shape, split)
            global_array[index] = shard[tuple(map(slice, global_array[index].shape))]
    return global_array


def from_bytes(x: np.ndarray, dtype: torch.dtype) -> Tensor:
    """The tensor with the memory of an array, whose type torch lacks."""
    return torch.from_numpy(x.reshape(-1).view(np.uint8)).view(dtype).reshape(x.shape)


def to_bytes(x: Tensor, dtype: str) -> np.ndarray:
    """The array with the memory of a tensor, whose type numpy lacks."""
    return memory(x.contiguous()).numpy().view(dtype).reshape(x.shape)


def draw(shape: list[int], dtype: torch.dtype, generator: torch.Generator) -> Tensor:
    """Random numbers: normally distributed, or small integers."""
    if dtype.is_floating_point:
        return torch.randn(shape, generator=generator).to(dtype)
    if dtype.is_complex:
        return torch.randn(shape, dtype=dtype, generator=generator)
    most = 2 if dtype == torch.bool else 5
    return torch.randint(0, most, shape, generator=generator).to(dtype)
