"""Reduce the shards of several devices where a library does not do it as MLIR does."""

from __future__ import annotations

from collections.abc import Iterable

import ml_dtypes
import numpy as np

from shard_dialect.abi.tensor_types import Array
from shard_dialect.model import Reduction
from shard_dialect.runtime.communicators.group import Group

_JOIN: dict[Reduction, np.ufunc] = {
    "sum": np.add,
    "product": np.multiply,
    "max": np.maximum,
    "min": np.minimum,
    "average": np.add,
    "bitwise_and": np.bitwise_and,
    "bitwise_or": np.bitwise_or,
    "bitwise_xor": np.bitwise_xor,
}
"""For each reduction, the numpy function that reduces two arrays."""
_NARROW = (np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16))


def join(addends: Iterable[Array], into: Array, reduction: Reduction) -> None:
    """Reduce the devices' `addends`, in their order, into another array.

    As compiled code, this does not warn of overflow or NaN. Floats of 16 bits are reduced in f32
    and rounded once.
    """
    if into.dtype in _NARROW:
        wide = np.empty(into.shape, np.float32)
        join((each.astype(np.float32) for each in addends), wide, reduction)
        with np.errstate(all="ignore"):
            into[...] = wide.astype(into.dtype)
        return
    first, *others = addends
    with np.errstate(all="ignore"):
        if others:
            _JOIN[reduction](first, others[0], out=into)
        else:
            into[...] = first
        for each in others[1:]:
            _JOIN[reduction](into, each, out=into)
        if reduction == "average":
            np.divide(into, into.dtype.type(1 + len(others)), out=into)


def all_reduce_in_chunks(group: Group, send: Array, into: Array, reduction: Reduction) -> None:
    """Each member reduces its block of the elements, then all gather the blocks."""
    chunk = -(-send.size // group.size)
    padded = np.zeros(chunk * group.size, send.dtype)
    padded[: send.size] = send.reshape(-1)
    joined = np.empty(chunk, send.dtype)
    reduce_scatter_in_chunks(group, padded, joined, reduction)
    group.all_gather(joined, padded)
    into.reshape(-1)[...] = padded[: send.size]


def reduce_scatter_in_chunks(group: Group, send: Array, into: Array, reduction: Reduction) -> None:
    """Each member receives its block of all members' elements, and reduces them."""
    slices_by_member = np.empty_like(send)
    group.all_to_all(send, slices_by_member)
    join(slices_by_member.reshape(group.size, *into.shape), into, reduction)


def reduce_by_rows(group: Group, send: Array, into: Array, root: int, reduction: Reduction) -> None:
    """The root receives all members' elements, and reduces them."""
    slices_by_member = np.empty((group.size, *send.shape), send.dtype)
    group.gather(send, slices_by_member, root)
    if group.index == root:
        join(slices_by_member, into, reduction)
    else:
        into[...] = 0
