"""`as_strided`, which counts in the memory of the tensor that it views.

    y = x[1:3]                               elements 8 ... 23 of the memory of x
    z = y.as_strided((2, 2), (8, 1), 0)      reads elements 0, 1, 8, 9 of it

In a functional graph nothing has memory. So `z` is of the tensor that the memory was made for, here
`x`: first as a view of its elements in a row, then as a lookup in them.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any

import torch

from shard_dialect.errors import ShardError
from shard_dialect.torch.graph.fx_nodes import location_of
from shard_dialect.torch.graph.tensor_trees import Tensor

aten = torch.ops.aten


def view_owners(graph: Any) -> None:
    """Let each strided view of a first trace be one of the owner of its memory, in a row.

    Raises `ShardError` where it reads what is not in the owner.
    """
    owners: dict[int, Any] = {}
    for node in list(graph.nodes):
        value = node.meta.get("val")
        if node.target in (aten.as_strided.default, aten.as_strided_scatter.default):
            viewed = node.args[0].meta.get("val")
            owner = owners.get(_memory(viewed)) if isinstance(viewed, torch.Tensor) else None
            if owner is not None:
                with graph.inserting_before(node):
                    _view_owner(graph, node, owner)
        if isinstance(value, torch.Tensor):
            owners.setdefault(_memory(value), node)


def _memory(value: Tensor) -> int:
    return int(value.untyped_storage()._cdata)


def _view_owner(graph: Any, node: Any, owner: Any) -> None:
    viewed, whole = node.args[0].meta["val"], owner.meta["val"]
    writes = node.target is aten.as_strided_scatter.default
    size, stride, *rest = node.args[2:] if writes else node.args[1:]
    first = rest[0] if rest and rest[0] is not None else viewed.storage_offset()
    order = _dense_order(whole.shape, whole.stride())
    first -= whole.storage_offset()
    last = first + sum((count - 1) * step for count, step in zip(size, stride, strict=True))
    if order is None or (prod(size) and not (first >= 0 and last < whole.numel())):
        raise ShardError(
            f"{node.target} reads memory in between or outside of the elements of "
            f"{'an argument' if owner.op == 'placeholder' else 'its operand'}, of shape "
            f"{list(whole.shape)} and strides {list(whole.stride())}: give it the whole tensor, "
            "contiguous",
            location_of(node),
        )
    call, row = graph.call_function, owner
    if not whole.is_contiguous() or not is_written_to(node):  # torch has no writes through both
        row = call(aten.permute.default, (owner, order))
        row = call(aten.view.default, (row, [whole.numel()]))
    if not writes:
        node.args = (row, size, stride, first)
        return
    written = call(node.target, (row, node.args[1], size, stride, first))
    at = viewed.storage_offset() - whole.storage_offset()
    node.target = aten.as_strided.default
    node.args = (written, list(viewed.shape), list(viewed.stride()), at)


def is_written_to(node: Any) -> bool:
    """Whether some op writes to the value in place, perhaps through a view of it."""
    for user in node.users:
        schema = getattr(user.target, "_schema", None)
        is_view = user.target is operator.getitem  # one of several views
        if schema is not None:
            is_view = any(each.alias_info is not None for each in schema.returns)
        is_known = schema is not None or is_view or user.op == "output"
        if not is_known or getattr(schema, "is_mutable", False):
            return True
        if is_view and is_written_to(user):
            return True
    return False


def _as_strided_scatter(
    x: Tensor, source: Tensor, size: Sequence[int], stride: Sequence[int], offset: int | None = None
) -> Tensor:
    """At the indices of the elements, of which there may be all in order."""
    order = _dense_order(size, stride)
    if order is not None and source.numel() == x.numel() and not offset:
        return source.permute(order).reshape(x.shape)
    place = _places(size, stride, offset or 0)
    flat = x.reshape(-1).index_put((place.reshape(-1),), source.reshape(-1))
    return flat.reshape(x.shape)


def _as_strided(
    x: Tensor, size: Sequence[int], stride: Sequence[int], offset: int | None = None
) -> Any:
    """A view if all elements are read in order; else a lookup in the order of the memory."""
    order = _dense_order(x.shape, x.stride())
    if order is None:
        return NotImplemented  # other elements are in between
    inner = _dense_order(size, stride)
    if inner is not None and prod(size) == x.numel() and not offset:
        found = x.permute(order).reshape([size[dim] for dim in inner])
        return found.permute([inner.index(dim) for dim in range(len(size))])
    place = _places(size, stride, offset or 0)
    return x.permute(order).reshape(-1)[place.reshape(-1)].reshape(tuple(size))


def _dense_order(size: Sequence[int], stride: Sequence[int]) -> list[int] | None:
    """Dimensions from the outermost one in memory, where no other elements are in between."""
    order = sorted(range(len(size)), key=lambda dim: (-stride[dim], size[dim] == 1))
    dense = 1
    for dim in reversed(order):
        if size[dim] != 1 and stride[dim] != dense:
            return None
        dense *= size[dim]
    return order


def _places(size: Sequence[int], stride: Sequence[int], offset: int) -> Tensor:
    """`[*size]`: where each element is in memory."""
    place = torch.zeros((), dtype=torch.int64) + offset
    for dim, (count, step) in enumerate(zip(size, stride, strict=True)):
        place = place + (torch.arange(count) * step).view([-1] + [1] * (len(size) - dim - 1))
    return place


DECOMPOSITIONS: Mapping[Any, Callable[..., Any]] = {
    aten.as_strided.default: _as_strided,
    aten.as_strided_scatter.default: _as_strided_scatter,
}
