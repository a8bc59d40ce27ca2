"""Ops whose results have sizes that depend on elements, by ops of a size that is decided.

nonzero(mask), with 3 elements    ->   where(mask, [0, 1, 2, 3], 4).sort()[:3]
x[mask]                           ->   index_select(x, nonzero(mask))
x[mask] = y                       ->   where(mask, y at the number of each element, x)
unique(x)                         ->   sort(x), at those that differ from the one before

Each op is a function of `decide`, which tells what a value is taken to be, of what it is likely to
be where nobody knows, and of the tensor whose size it is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from math import prod
from typing import Any

import torch

from shard_dialect.torch.graph.tensor_trees import Tensor

aten = torch.ops.aten
Decide = Callable[..., int]


def _positions(decide: Decide, mask: Tensor) -> Tensor:
    """Where a mask is true, in the order of its elements."""
    flat = (mask if mask.dtype == torch.bool else mask != 0).reshape(-1)
    count = decide(flat.sum(), flat.numel(), mask)
    return _of_count(flat, count)


def _of_count(flat: Tensor, count: int) -> Tensor:
    place = torch.arange(flat.numel())
    if count == flat.numel():
        return place
    if not count:
        return place[:0]
    return torch.where(flat, place, flat.numel()).sort()[0].narrow(0, 0, count)


def _columns(decide: Decide, mask: Tensor) -> list[Tensor]:
    """The positions, along each dimension."""
    at = _positions(decide, mask)
    found: list[Tensor] = []
    for size in reversed(mask.shape):
        found.append(at % size if len(found) + 1 < mask.dim() else at)
        at = at // size if len(found) < mask.dim() else at
    return found[::-1]


def _nonzero(decide: Decide, x: Tensor) -> Tensor:
    columns = _columns(decide, x)
    if not columns:
        return torch.zeros((decide((x != 0).to(torch.int64), 1, x), 0), dtype=torch.int64)
    return torch.stack(columns, 1)


def _is_mask(index: Any) -> bool:
    return index is not None and index.dtype in (torch.bool, torch.uint8)


def _index(decide: Decide, x: Tensor, indices: Sequence[Any]) -> Any:
    if not any(map(_is_mask, indices)):
        return NotImplemented
    given = [each for each in indices if each is not None]
    at = next(number for number, each in enumerate(indices) if each is not None)
    if len(given) == 1 and given[0].dim():  # one lookup, which the dimensions that are left share
        (mask,) = given
        flat = x if mask.dim() == 1 else x.flatten(at, at + mask.dim() - 1)
        return flat.index_select(at, _positions(decide, mask))
    return aten.index.Tensor(x, _without_masks(decide, indices))


def _without_masks(decide: Decide, indices: Sequence[Any]) -> list[Any]:
    return [
        column
        for each in indices
        for column in (_columns(decide, each) if _is_mask(each) else [each])
    ]


def _index_put(
    decide: Decide,
    x: Tensor,
    indices: Sequence[Any],
    value: Tensor,
    accumulate: bool = False,
    unsafe: bool = False,
) -> Any:
    """Of one mask a choice: of numbers, or of rows, each of which knows which one it is."""
    if not any(map(_is_mask, indices)):
        return NotImplemented
    given = [each for each in indices if each is not None]
    at = next(number for number, each in enumerate(indices) if each is not None)
    mask, rank = given[0], given[0].dim()
    if len(given) > 1 or not rank:
        return aten.index_put.default(x, _without_masks(decide, indices), value, accumulate)
    mask = mask if mask.dtype == torch.bool else mask != 0
    after = x.dim() - at - rank
    value = value.to(x.dtype)
    # Along the dimension of the chosen elements a value is broadcast, or it has one for each.
    rows = value.dim() - after - 1
    if rows >= 0 and value.shape[rows] != 1:
        count = _positions(decide, given[0]).shape[0]
        if value.shape[rows] != count:
            raise IndexError(
                f"shape mismatch: value of shape {list(value.shape)} for {count} elements"
            )
        if not count:
            return x.clone()
        number = (mask.reshape(-1).to(torch.int64).cumsum(0) - 1).clamp(0, count - 1)
        value = value.index_select(rows, number)
        value = value.reshape(value.shape[:rows] + mask.shape + value.shape[rows + 1 :])
    elif rows >= 0:
        value = value.reshape(value.shape[:rows] + (1,) * rank + value.shape[rows + 1 :])
    mask = mask.reshape(mask.shape + (1,) * after)
    return torch.where(mask, x + value if accumulate else value, x)


def _in_place(function: Callable[..., Any], decide: Decide, x: Tensor, *args: Any) -> Any:
    found = function(decide, x, *args)
    return found if found is NotImplemented else x.copy_(found)


def _masked_select(decide: Decide, x: Tensor, mask: Tensor) -> Tensor:
    shape = torch.broadcast_shapes(x.shape, mask.shape)
    if mask.shape != shape:
        mask = mask.expand(shape)
    return x.expand(shape).reshape(-1).index_select(0, _positions(decide, mask))


def _groups(decide: Decide, is_first: Tensor, order: Tensor | None) -> tuple[Tensor, ...]:
    """The first of each group of equal neighbors, the group of each element, and their sizes."""
    size = is_first.numel()
    first = _of_count(is_first, decide(is_first.sum(), size))
    group = is_first.to(torch.int64).cumsum(0) - 1
    if order is not None:
        group = torch.zeros_like(group).scatter(0, order, group)
    counts = torch.cat([first[1:], torch.full((min(size, 1),), size)]) - first
    return first, group, counts


def _differs(x: Tensor) -> Tensor:
    """Whether rows differ from those before them."""
    if not x.shape[0]:
        return torch.zeros(0, dtype=torch.bool)
    differs = x[1:] != x[:-1]
    differs = differs.flatten(1).any(1) if x.dim() > 1 else differs
    return torch.cat([torch.ones(1, dtype=torch.bool), differs])


def _unique(
    decide: Decide, x: Tensor, is_sorted: bool = True, inverse: bool = False, counts: bool = False
) -> Any:
    ordered, order = x.reshape(-1).sort()
    first, group, sizes = _groups(decide, _differs(ordered), order)
    return ordered.index_select(0, first), group.reshape(x.shape), sizes


def _unique_two(decide: Decide, *args: Any, **kwargs: Any) -> Any:
    return _unique(decide, *args, **kwargs)[:2]


def _unique_rows(
    decide: Decide,
    x: Tensor,
    dim: int,
    is_sorted: bool = True,
    inverse: bool = False,
    counts: bool = False,
) -> Any:
    rows = x.movedim(dim, 0)
    flat = rows.reshape(rows.shape[0], prod(rows.shape[1:]))
    flat = flat.to(torch.uint8) if flat.dtype == torch.bool else flat
    order = torch.arange(rows.shape[0])
    for column in reversed(range(flat.shape[1])):
        order = order[flat[order, column].sort(stable=True)[1]]
    ordered = rows.index_select(0, order)
    first, group, sizes = _groups(decide, _differs(ordered), order)
    return ordered.index_select(0, first).movedim(0, dim), group, sizes


def _unique_neighbors(
    decide: Decide, x: Tensor, inverse: bool = False, counts: bool = False, dim: int | None = None
) -> Any:
    rows = x.reshape(-1) if dim is None else x.movedim(dim, 0)
    first, group, sizes = _groups(decide, _differs(rows), None)
    found = rows.index_select(0, first)
    if dim is None:
        return found, group.reshape(x.shape), sizes
    return found.movedim(0, dim), group, sizes


def _repeats(decide: Decide, repeats: Tensor, output_size: int | None = None) -> Tensor:
    """The number of each element, as often as it is said."""
    size = decide(repeats.sum(), repeats.numel() if output_size is None else output_size)
    ends = repeats.cumsum(0)
    return torch.searchsorted(ends, torch.arange(size), right=True).to(repeats.dtype)


def _bincount(
    decide: Decide, x: Tensor, weights: Tensor | None = None, minlength: int = 0
) -> Tensor:
    if x.numel():
        wanted = (x.max().to(torch.int64) + 1).clamp(min=minlength)
        size = decide(wanted, max(minlength, 1))
    else:
        size = minlength
    if weights is None:
        weights = torch.ones_like(x, dtype=torch.int64)
    elif weights.dtype != torch.float32:
        weights = weights.to(torch.float64)
    found = torch.zeros(size, dtype=weights.dtype)
    return found.scatter_add(0, x.to(torch.int64), weights) if size and x.numel() else found


def _equal(decide: Decide, a: Tensor, b: Tensor) -> bool:
    return a.shape == b.shape and bool(decide((a == b).all(), 1))


def _allclose(decide: Decide, a: Tensor, b: Tensor, *args: Any, **kwargs: Any) -> bool:
    return bool(decide(torch.isclose(a, b, *args, **kwargs).all(), 1))


OPS: Mapping[Any, Callable[..., Any]] = {
    aten.nonzero.default: _nonzero,
    aten.argwhere.default: _nonzero,
    aten.index.Tensor: _index,
    aten.index_put.default: _index_put,
    aten.index_put_.default: partial(_in_place, _index_put),
    aten._index_put_impl_.default: partial(_in_place, _index_put),
    aten.masked_select.default: _masked_select,
    aten._unique2.default: _unique,
    aten._unique.default: _unique_two,
    aten.unique_dim.default: _unique_rows,
    aten.unique_consecutive.default: _unique_neighbors,
    aten.repeat_interleave.Tensor: _repeats,
    aten.bincount.default: _bincount,
    aten.equal.default: _equal,
    aten.allclose.default: _allclose,
}
