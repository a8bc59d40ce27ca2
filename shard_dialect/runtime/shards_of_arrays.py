"""Global arrays to shards, and back: the meaning of a sharding, on numpy's arrays.

Arrays of JAX and torch become numpy's, and back; in one memory where that is possible.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np

from shard_dialect.abi.tensor_types import Array, identity
from shard_dialect.errors import ShardError, as_symbol
from shard_dialect.model import Grid, Sharding
from shard_dialect.model.annotation import SplitAxes, sharding_on
from shard_dialect.model.sharding import Shape


def to_numpy(array: Any) -> Array:
    """The elements of an array of any framework, or of nested lists of numbers."""
    torch = sys.modules.get("torch")
    if isinstance(array, np.ma.MaskedArray):
        raise ShardError("a masked array has no values where it is masked: take its .filled(...)")
    if torch is None or not isinstance(array, torch.Tensor):
        return np.asarray(array)
    tensor = array.detach().cpu().resolve_conj().resolve_neg()
    if tensor.dtype == torch.bfloat16:  # which numpy itself does not know
        bits: Array = tensor.contiguous().view(torch.int16).numpy()
        return bits.view(ml_dtypes.bfloat16)
    found: Array = tensor.numpy()
    return found


def is_jax(array: Any) -> bool:
    """Whether an array is one of JAX."""
    jax = sys.modules.get("jax")
    return jax is not None and isinstance(array, jax.Array)


def like(array: Array, example: Any) -> Any:
    """The array as one of the framework that `example` is of; numpy's for anything else."""
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(example, torch.Tensor):
        if array.dtype == ml_dtypes.bfloat16:
            return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
        return torch.from_numpy(array)
    if is_jax(example):
        return sys.modules["jax"].numpy.asarray(array)
    return array


def scatter(array: Any, sharding: Sharding | SplitAxes, grid: Grid) -> list[Array]:
    """Return each device's shard of an array, by rank, without padding.

    Shards may be of unequal sizes, or empty. A shard with halos holds its neighbours' elements, and
    past the ends of the tensor the identity of the sharding's `fill`. Raises `ShardError` for a
    sharding that is partial, or that the array cannot have.
    """
    global_array = to_numpy(array)
    found = sharding_on(grid, sharding, global_array.ndim)
    _refuse_partial(found)
    found.check_offsets(global_array.shape)
    shape, filling = global_array.shape, identity(found.fill, global_array.dtype)
    shards = []
    for rank in range(grid.size):
        sizes = [
            len(range(*part.indices(size))) + sum(found.halo(dim))
            for dim, (part, size) in enumerate(
                zip(found.shard(rank, shape, grid), shape, strict=True)
            )
        ]
        shard = np.full(sizes, filling, global_array.dtype)
        held = [
            (part.start, at, min(part.stop - part.start, size - at))
            for (part, at), size in zip(found.held(rank, shape, grid), sizes, strict=True)
        ]
        shard[tuple(slice(at, at + count) for _, at, count in held)] = global_array[
            tuple(slice(start, start + count) for start, _, count in held)
        ]
        shards.append(shard)
    return shards


def gather(shards: Sequence[Any], sharding: Sharding | SplitAxes, grid: Grid) -> Array:
    """Return the array whose shards these are, by rank; the inverse of `scatter`.

    Raises `ShardError` for too few shards, for shards whose sizes or types do not fit each other,
    and for shards of the same elements whose values differ.
    """
    held = list(map(to_numpy, shards))
    if len(held) != grid.size:
        raise ShardError(
            f"{len(held)} shards for the {grid.size} devices of grid {as_symbol(grid.name)}"
        )
    for rank, each in enumerate(held):
        if (each.dtype, each.ndim) != (held[0].dtype, held[0].ndim):
            raise ShardError(
                f"the shard of device {rank} is an array of {each.dtype} of {each.ndim} "
                f"dimensions, that of device 0 of {held[0].dtype} of {held[0].ndim}: they are "
                "parts of one array"
            )
    found = sharding_on(grid, sharding, held[0].ndim)
    _refuse_partial(found)
    halos = [found.halo(dim) for dim in range(found.rank)]
    own = [each[_without(halos, each.shape)] for each in held]
    shape = tuple(_size(own, found, dim, grid) for dim in range(found.rank))
    global_array = np.empty(shape, held[0].dtype)
    firsts: dict[tuple[int, ...], int] = {}
    for rank, each in enumerate(own):
        part = found.shard(rank, shape, grid)
        if global_array[part].shape != each.shape:
            raise ShardError(
                f"the shard of device {rank} has shape {list(each.shape)}: expected "
                f"{list(global_array[part].shape)}, for a tensor of shape {list(shape)} as {found}"
            )
        first = firsts.setdefault(
            tuple(grid.index_along(rank, axes) for axes in found.split_axes), rank
        )
        if first == rank:
            global_array[part] = each
        else:
            _refuse_another(each, rank, own[first], first)
    return global_array


def _refuse_another(shard: Array, rank: int, other: Array, first: int) -> None:
    """Raise for a device that does not have the elements of its replica. NaN is NaN."""
    differs = (shard != other) & ~((shard != shard) & (other != other))
    if differs.any():
        at = tuple(map(int, np.argwhere(differs)[0]))
        raise ShardError(
            f"devices {first} and {rank} have the same shard, but {other[at]} and {shard[at]} at "
            f"{list(at)} of it: give shards that agree, or a grid of the devices to be believed"
        )


def _without(halos: Sequence[tuple[int, int]], shape: Shape) -> tuple[slice, ...]:
    return tuple(slice(low, size - high) for (low, high), size in zip(halos, shape, strict=True))


def _size(shards: Sequence[Array], sharding: Sharding, dim: int, grid: Grid) -> int:
    """The global size of a dimension: the sum of its shards' sizes along one group."""
    axes = sharding.split_axes[dim]
    if sharding.offsets and sharding.offsets[dim]:
        return sharding.offsets[dim][-1] or 0
    sizes = {grid.index_along(rank, axes): each.shape[dim] for rank, each in enumerate(shards)}
    return sum(sizes.values())


def _refuse_partial(sharding: Sharding) -> None:
    if sharding.partial:
        raise ShardError(f"a sharding that is partial says no shards: {sharding}")
