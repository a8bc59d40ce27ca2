"""Decompositions of ops that order elements: by a sort, by comparing pairs, or by doubling steps.

median(x)               ->   sort(x)[(n - 1) // 2]
searchsorted(s, v)      ->   how many elements of s are less than each of v
argmax(x)               ->   the least place of an element that equals max(x), or is NaN
cummax(x)               ->   max(x, shifted by 1), of that max with it shifted by 2, by 4, ...
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch

from shard_dialect.torch.graph.reducing_scatters import identity
from shard_dialect.torch.graph.tensor_trees import Tensor

aten = torch.ops.aten


def scanned(combine: Callable[[Tensor, Tensor], Tensor], x: Tensor, dim: int, start: Any) -> Tensor:
    """Of each element what is combined up to it: with the one before, with those two before, ...

    `start` is what stands before the first element.
    """
    found, step = x.movedim(dim, -1), 1
    while step < found.shape[-1]:
        before = torch.nn.functional.pad(found[..., :-step], (step, 0), value=start)
        found, step = combine(before, found), 2 * step
    return found.movedim(-1, dim)


def _select(x: Tensor, number: int, dim: int, keepdim: bool, nan_first: bool) -> Any:
    """The value and the index of the element of this number in ascending order; NaNs are last.

    With `nan_first`, the first NaN if there is one.
    """
    dim = dim % max(x.dim(), 1)
    values, indices = _sorted(x, dim)
    value, index = (each.narrow(dim, number, 1) for each in (values, indices))
    if nan_first and x.is_floating_point():
        missing = x.isnan()
        has_one = missing.any(dim, keepdim=True)
        first = missing.to(torch.int64).argmax(dim, keepdim=True)
        value = torch.where(has_one, float("nan"), value)
        index = torch.where(has_one, first, index)
    return (value, index) if keepdim else (value.squeeze(dim), index.squeeze(dim))


def _sorted(x: Tensor, dim: int) -> Any:
    """The importer's comparison leaves NaNs anywhere: they sort as infinity, and then go last."""
    if not x.is_floating_point():
        return x.sort(stable=True, dim=dim)
    missing = x.isnan()
    indices = torch.where(missing, float("inf"), x).sort(stable=True, dim=dim).indices
    last = missing.gather(dim, indices).to(torch.int32).sort(stable=True, dim=dim).indices
    indices = indices.gather(dim, last)
    return x.gather(dim, indices), indices


def _kthvalue(x: Tensor, k: int, dim: int = -1, keepdim: bool = False) -> Any:
    return _select(x, k - 1, dim, keepdim, nan_first=False)


def _median_along(x: Tensor, dim: int, keepdim: bool = False) -> Any:
    return _select(x, (x.shape[dim] - 1) // 2, dim, keepdim, nan_first=True)


def _median(x: Tensor) -> Tensor:
    if not x.numel():
        return torch.full((), float("nan"), dtype=x.dtype)
    return _median_along(x.reshape(-1), 0)[0]


def _nanmedian_along(x: Tensor, dim: int, keepdim: bool = False) -> Any:
    """At the half of those that are numbers, which are first."""
    dim = dim % x.dim()
    values, indices = _sorted(x, dim)
    count = x.isnan().logical_not().sum(dim, keepdim=True)
    at = ((count - 1) // 2).clamp(min=0)
    found = values.gather(dim, at), indices.gather(dim, at)
    return found if keepdim else tuple(each.squeeze(dim) for each in found)


def _nanmedian(x: Tensor) -> Tensor:
    if not x.numel():
        return torch.full((), float("nan"), dtype=x.dtype)
    return _nanmedian_along(x.reshape(-1), 0)[0]


def _mode(x: Tensor, dim: int = -1, keepdim: bool = False) -> Any:
    """The least of the most frequent values, and the last place where it is; NaNs are not equal."""
    last = x.movedim(dim, -1)
    counts = (last.unsqueeze(-1) == last.unsqueeze(-2)).sum(-1)
    is_most = counts == counts.amax(-1, keepdim=True)
    value = torch.where(is_most, last, identity("amin", last.dtype)).amin(-1, keepdim=True)
    index = torch.where(last == value, torch.arange(last.shape[-1]), 0).amax(-1, keepdim=True)
    found = value.movedim(-1, dim), index.movedim(-1, dim)
    return found if keepdim else tuple(each.squeeze(dim) for each in found)


def _cumulative(x: Tensor, dim: int, *, is_max: bool) -> Any:
    """The extreme element up to each, and where it is: of equal ones the last."""
    value = x.movedim(dim, -1)
    index = torch.arange(value.shape[-1]).expand(value.shape)
    step = 1
    while step < value.shape[-1]:
        # Before the first element, itself: it wins against no element.
        before, at = (
            torch.cat([each.narrow(-1, 0, step), each.narrow(-1, 0, each.shape[-1] - step)], -1)
            for each in (value, index)
        )
        wins = before > value if is_max else before < value
        if x.is_floating_point():
            wins = wins | (before.isnan() & value.isnan().logical_not())
        value, index = torch.where(wins, before, value), torch.where(wins, at, index)
        step *= 2
    return value.movedim(-1, dim), index.movedim(-1, dim)


def _extreme(x: Tensor, dim: int, keepdim: bool = False, *, name: str) -> Any:
    """The extreme element, and its first place; NaN is extreme, which the importer drops."""
    if not x.is_floating_point():
        return NotImplemented
    value = getattr(x, name)(dim, keepdim=True)
    places = torch.arange(x.shape[dim]).view([-1, *[1] * (x.dim() - 1 - dim % x.dim())])
    is_there = (x == value) | x.isnan()
    found = value, torch.where(is_there, places, x.shape[dim]).amin(dim, keepdim=True)
    return found if keepdim else tuple(each.squeeze(dim) for each in found)


def _place(x: Tensor, dim: int | None = None, keepdim: bool = False, *, name: str) -> Any:
    if not x.is_floating_point():
        return NotImplemented
    if dim is not None:
        return _extreme(x, dim, keepdim, name=name)[1]
    found = _extreme(x.reshape(-1), 0, name=name)[1]
    return found.reshape([1] * x.dim()) if keepdim else found


def _searchsorted(
    ordered: Tensor,
    values: Any,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: Tensor | None = None,
) -> Tensor:
    if sorter is not None:
        ordered = ordered.gather(-1, sorter)
    is_right = right or side == "right"
    if not isinstance(values, torch.Tensor):
        values = torch.full((), values, dtype=torch.result_type(ordered, values))
    rows = ordered.unsqueeze(-2) if ordered.dim() > 1 else ordered
    each = values.unsqueeze(-1)
    # After a NaN is nothing, and a NaN is after all else.
    found = ((rows > each) if is_right else (rows >= each)).logical_not().sum(-1)
    return found.to(torch.int32 if out_int32 else torch.int64)


DECOMPOSITIONS: Mapping[Any, Callable[..., Any]] = {
    aten.kthvalue.default: _kthvalue,
    aten.median.default: _median,
    aten.median.dim: _median_along,
    aten.nanmedian.default: _nanmedian,
    aten.nanmedian.dim: _nanmedian_along,
    aten.mode.default: _mode,
    aten.cummax.default: partial(_cumulative, is_max=True),
    aten.cummin.default: partial(_cumulative, is_max=False),
    aten.max.dim: partial(_extreme, name="amax"),
    aten.min.dim: partial(_extreme, name="amin"),
    aten.argmax.default: partial(_place, name="amax"),
    aten.argmin.default: partial(_place, name="amin"),
    aten.searchsorted.Tensor: _searchsorted,
    aten.searchsorted.Scalar: _searchsorted,
}
