"""Indices that torch refuses where they are out of range, and our program must not clamp.

    aten.embedding(%w : 64x8, %i)     %i is in 0 ... 63
    aten.index.Tensor(%x : 4x9, [None, %i])     %i is in -9 ... 8

Such indices are results of the program, and the host looks at its shards of them: nothing is
communicated for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from shard_dialect.errors import ShardError
from shard_dialect.runtime.shards_of_arrays import to_numpy


class IndexOutOfRange(ShardError, IndexError):
    """An index of a call is out of range, as torch's IndexError."""


@dataclass(frozen=True)
class IndexCheck:
    """The bounds of an index tensor."""

    op: str
    low: int
    high: int
    """The first index that is too large."""
    location: str | None
    ignored: int | None = None
    """An index outside of the bounds that stands for nothing."""

    def check(self, indices: Any) -> None:
        """Raise `IndexOutOfRange` if some index is.

        Nobody waits for tensors on another device than the host: that ends with an error of its
        own, as torch's, where it comes to a wrong index.
        """
        if isinstance(indices, torch.Tensor) and indices.device.type != "cpu":
            right = (indices >= self.low) & (indices < self.high)
            right = right if self.ignored is None else right | (indices == self.ignored)
            torch._assert_async(right.all(), self._said("some index"))
            return
        indices = to_numpy(indices)
        wrong: Any = np.less(indices, self.low) | np.greater_equal(indices, self.high)
        if self.ignored is not None:
            wrong &= np.not_equal(indices, self.ignored)
        if wrong.any():
            first = indices[np.unravel_index(wrong.argmax(), wrong.shape)]
            raise IndexOutOfRange(self._said(f"index {first}"), self.location)

    def _said(self, what: str) -> str:
        return f"{what} is out of range for {self.op}: expected {self.low} to {self.high - 1}"


_aten = torch.ops.aten
Bounds = tuple[Any, int, int, int | None]
"""The node of the indices, the lowest one, the first that is too large, and the ignored one."""
_FIRST = {
    _aten.embedding.default,
    _aten.embedding_bag.default,
    _aten.embedding_bag.padding_idx,
    _aten._embedding_bag.default,
    _aten._embedding_bag_forward_only.default,
}
"""Tables, whose first dimension the operand after them is an index of."""
_FILLS = {
    _aten.index_fill.int_Scalar,
    _aten.index_fill_.int_Scalar,
    _aten.index_fill.int_Tensor,
    _aten.index_fill_.int_Tensor,
}
_ALONG = {
    _aten.gather.default,
    _aten.index_select.default,
    _aten.scatter.src,
    _aten.scatter.value,
    _aten.scatter.reduce,
    _aten.scatter.value_reduce,
    _aten.scatter_.src,
    _aten.scatter_.value,
    _aten.scatter_add.default,
    _aten.scatter_add_.default,
    _aten.scatter_reduce.two,
    _aten.scatter_reduce_.two,
    _aten.index_add.default,
    _aten.index_add_.default,
    _aten.index_copy.default,
    _aten.index_copy_.default,
    *_FILLS,
}
"""A tensor, one of its dimensions, and indices along it."""
_LISTS = {
    _aten.index.Tensor,
    _aten.index_put.default,
    _aten.index_put_.default,
    _aten._unsafe_index.Tensor,
    _aten._index_put_impl_.default,
}
"""A tensor, and a list with an index tensor for each dimension that is indexed."""
_FLAT = {_aten.take.default, _aten.put.default, _aten.put_.default}
"""A tensor, and indices of its elements in order."""
_LOSSES = {
    _aten.nll_loss_forward.default,
    _aten.nll_loss2d_forward.default,
    _aten.nll_loss.default,
    _aten.nll_loss2d.default,
}


def checks_of(node: Any, location: str | None) -> Iterator[tuple[Any, IndexCheck]]:
    """The nodes of the indices of an op, each with its bounds."""
    for index, low, high, ignored in _bounds(node):
        value = index.meta.get("val")
        if value is not None and not value.is_floating_point() and value.dtype != torch.bool:
            yield index, IndexCheck(str(node.target), low, high, location, ignored)


def _bounds(node: Any) -> list[Bounds]:
    if str(node.target) == "shard_dialect.in_range.default":
        return [(node.args[0], 0, node.args[1], None)]
    for names, read in _READ:
        if node.target in names:
            return read(node)
    return []


def wrapped(target: Any, args: Any) -> Any:
    """The arguments of an op, with positive indices in the place of negative ones.

    The importer takes some ops' negative indices for 0.
    """
    if target in _FLAT:
        index = args[1]
        return (args[0], torch.where(index < 0, index + args[0].numel(), index), *args[2:])
    if target in _FILLS and args[0].dim():
        tensor, dim, index = args[:3]
        index = torch.where(index < 0, index + tensor.shape[dim], index)
        return (tensor, dim, index, *args[3:])
    if target not in _LISTS:
        return args
    indices = list(args[1])
    for dim, each in enumerate(indices):
        if each is not None:
            indices[dim] = torch.where(each < 0, each + args[0].shape[dim], each)
    return (args[0], indices, *args[2:])


def _of_table(node: Any) -> list[Bounds]:
    return [(node.args[1], 0, _sizes(node.args[0])[0], None)]


def _along(node: Any) -> list[Bounds]:
    sizes = _sizes(node.args[0])
    size = sizes[node.args[1]] if sizes else 1
    low = -size if node.target in _FILLS else 0
    return [(node.args[2], low, size, None)]


def _taken(node: Any) -> list[Bounds]:
    count = node.args[0].meta["val"].numel()
    return [(node.args[1], -count, count, None)]


def _listed(node: Any) -> list[Bounds]:
    pairs = zip(node.args[1], _sizes(node.args[0]), strict=False)
    return [(each, -size, size, None) for each, size in pairs if each is not None]


def _of_loss(node: Any) -> list[Bounds]:
    names = [each.name for each in node.target._schema.arguments]
    given = {**dict(zip(names, node.args, strict=False)), **node.kwargs}
    sizes = _sizes(given["self"])
    classes = sizes[1] if len(sizes) > 1 else sizes[0]
    return [(given["target"], 0, classes, given.get("ignore_index", -100))]


def _sizes(node: Any) -> Any:
    return node.meta["val"].shape


_READ: list[tuple[Any, Callable[[Any], list[Bounds]]]] = [
    (_FIRST, _of_table),
    (_ALONG, _along),
    (_LISTS, _listed),
    (_FLAT, _taken),
    (_LOSSES, _of_loss),
]
