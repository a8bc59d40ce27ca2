"""What joins the parts of several devices, where a library does not do it as MLIR does."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from shard_dialect.model import Reduction
from shard_dialect.runtime.arrays import Array
from shard_dialect.runtime.group import Group

REDUCE: dict[Reduction, Callable[[Array], Array]] = {
    "sum": lambda rows: rows.sum(axis=0, dtype=rows.dtype),
    "product": lambda rows: rows.prod(axis=0, dtype=rows.dtype),
    "max": lambda rows: rows.max(axis=0),
    "min": lambda rows: rows.min(axis=0),
    "average": lambda rows: rows.mean(axis=0, dtype=rows.dtype),
    "bitwise_and": lambda rows: np.bitwise_and.reduce(rows, axis=0),
    "bitwise_or": lambda rows: np.bitwise_or.reduce(rows, axis=0),
    "bitwise_xor": lambda rows: np.bitwise_xor.reduce(rows, axis=0),
}
"""For each reduction what joins the rows of an array into one."""


def join(rows: Array, into: Array, reduction: Reduction) -> None:
    """The rows of an array, one for each device, joined into one.

    The code does not warn of what overflows, or is no number, and neither does this.
    """
    with np.errstate(all="ignore"):
        into[...] = REDUCE[reduction](rows)


def all_reduce_by_parts(group: Group, send: Array, into: Array, reduction: Reduction) -> None:
    """Each member joins its part of all elements, and all put the parts together."""
    part = -(-send.size // group.size)
    padded = np.zeros(part * group.size, send.dtype)
    padded[: send.size] = send.reshape(-1)
    joined = np.empty(part, send.dtype)
    reduce_scatter_by_parts(group, padded, joined, reduction)
    group.all_gather(joined, padded)
    into.reshape(-1)[...] = padded[: send.size]


def reduce_scatter_by_parts(group: Group, send: Array, into: Array, reduction: Reduction) -> None:
    """Each member gets its part of what all have, and joins them."""
    rows = np.empty_like(send)
    group.all_to_all(send, rows)
    join(rows.reshape(group.size, *into.shape), into, reduction)


def reduce_by_rows(group: Group, send: Array, into: Array, root: int, reduction: Reduction) -> None:
    """The root gets what all have, and joins it."""
    rows = np.empty((group.size, *send.shape), send.dtype)
    group.gather(send, rows, root)
    if group.index == root:
        join(rows, into, reduction)
    else:
        into[...] = 0
