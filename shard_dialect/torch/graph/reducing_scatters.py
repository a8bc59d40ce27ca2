"""Decompositions of scatters that reduce: of all pairs of an element and a place, those that meet.

scatter_reduce(x, 0, i, s, "amax")     x : 4, i and s : 9
->   max(x, where(i == [[0], [1], [2], [3]], s, -inf).amax(1))
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any

import torch

from shard_dialect.torch.graph.tensor_trees import Tensor

aten = torch.ops.aten


def _reduced(
    x: Tensor, dim: int, index: Tensor, source: Tensor, reduce: str, *, include_self: bool = True
) -> Tensor:
    if x.dtype == torch.bool:  # a sum is an or, a product an and
        x, source = x.to(torch.int32), source.to(torch.int32)
        reduce = {"sum": "amax", "prod": "amin"}.get(reduce, reduce)
        return _reduced(x, dim, index, source, reduce, include_self=include_self) != 0
    dim, shape = dim % x.dim(), tuple(x.shape)
    for each, size in enumerate(index.shape):
        source = source.narrow(each, 0, size)
    places = torch.arange(shape[dim]).view([-1] + [1] * (x.dim() - dim))
    meets = index.unsqueeze(dim) == places  # [..., places, elements, ...]
    start = identity(reduce, x.dtype)
    given = torch.where(meets, source.unsqueeze(dim), start)
    found = _FUNCTIONS[reduce](given, dim + 1)
    count = meets.sum(dim + 1)
    inside = list(found.shape)
    if inside != list(shape):  # the index is smaller than the tensor
        pads = [each for a, b in zip(inside, shape, strict=True) for each in (b - a, 0)][::-1]
        found = torch.constant_pad_nd(found, pads, start)
        count = torch.constant_pad_nd(count, pads)
    if include_self:
        total = _PAIRS[reduce](x, found)
        if reduce == "mean":
            total = _divided(total, count + 1)
        return total
    if reduce == "mean":
        found = _divided(found, count.clamp(min=1))
    return torch.where(count > 0, found, x)


def _divided(x: Tensor, count: Tensor) -> Tensor:
    if x.is_floating_point():
        return x / count
    return torch.div(x, count, rounding_mode="floor").to(x.dtype)


def identity(reduce: str, dtype: Any) -> Any:
    """The value that a reduction of this name leaves unchanged."""
    if reduce in ("amax", "amin"):
        if dtype == torch.bool:
            return reduce == "amin"
        about = torch.finfo(dtype) if dtype.is_floating_point else torch.iinfo(dtype)
        low, high = about.min, about.max
        if dtype.is_floating_point:
            low, high = float("-inf"), float("inf")
        return low if reduce == "amax" else high
    return 1 if reduce == "prod" else 0


_FUNCTIONS: Mapping[str, Callable[[Tensor, int], Tensor]] = {
    "sum": lambda x, dim: x.sum(dim, dtype=x.dtype),
    "mean": lambda x, dim: x.sum(dim, dtype=x.dtype),
    "prod": lambda x, dim: x.prod(dim, dtype=x.dtype),
    "amax": lambda x, dim: x.amax(dim),
    "amin": lambda x, dim: x.amin(dim),
}
_PAIRS: Mapping[str, Callable[[Tensor, Tensor], Tensor]] = {
    "sum": torch.add,
    "mean": torch.add,
    "prod": torch.mul,
    "amax": torch.maximum,
    "amin": torch.minimum,
}
_OLD_NAMES = {"add": "sum", "multiply": "prod"}


def _scatter_reduced(x: Tensor, dim: int, index: Tensor, source: Any, *, reduce: str) -> Tensor:
    if not isinstance(source, torch.Tensor):
        source = torch.full(index.shape, source, dtype=x.dtype)
    return _reduced(x, dim, index, source, _OLD_NAMES[reduce])


def _index_reduced(
    x: Tensor, dim: int, index: Tensor, source: Tensor, reduce: str, *, include_self: bool = True
) -> Tensor:
    at = [1] * x.dim()
    at[dim % x.dim()] = -1
    index = index.view(at).expand(source.shape)
    return _reduced(x, dim, index, source, reduce, include_self=include_self)


def _masked_scatter(x: Tensor, mask: Tensor, source: Tensor) -> Tensor:
    """The n-th element of the mask has the n-th of the source."""
    x, mask = torch.broadcast_tensors(x, mask)
    if not source.numel():
        return x.clone()  # the mask is false
    number = _numbers(mask, source.numel())
    return torch.where(mask, source.reshape(-1)[number].reshape(x.shape), x)


def _masked_scatter_backward(gradient: Tensor, mask: Tensor, sizes: Sequence[int]) -> Tensor:
    gradient, mask = torch.broadcast_tensors(gradient, mask)
    flat = torch.zeros(prod(sizes), dtype=gradient.dtype)
    given = torch.where(mask, gradient, 0).reshape(-1)
    return flat.scatter_add(0, _numbers(mask, flat.numel()), given).reshape(tuple(sizes))


def _numbers(mask: Tensor, count: int) -> Tensor:
    """Of each element of a mask, how many are before it."""
    number = mask.reshape(-1).to(torch.int64).cumsum(0) - 1
    return number.clamp(0, max(count - 1, 0))


DECOMPOSITIONS: Mapping[Any, Callable[..., Any]] = {
    aten.scatter_reduce.two: _reduced,
    aten.scatter.reduce: _scatter_reduced,
    aten.scatter.value_reduce: _scatter_reduced,
    aten.index_reduce.default: _index_reduced,
    aten.masked_scatter.default: _masked_scatter,
    aten.masked_scatter_backward.default: _masked_scatter_backward,
}
