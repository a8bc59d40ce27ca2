"""torch's ops of functions, which a trace runs as Python does: it follows branches, unrolls loops.

cond(p, f, g, xs)         ->   f(*xs) where p holds for the call, else g(*xs)
while_loop(p, f, xs)      ->   f(*f(*xs)), as often as p holds for the call
map(f, xs)                ->   f of each slice, stacked
scan(f, init, xs)         ->   f of each slice and of what it gave before, stacked
flex_attention(q, k, v)   ->   softmax(mod(q @ k.T)) @ v
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch._higher_order_ops.flex_attention import math_attention
from torch.utils import _pytree as pytree

from shard_dialect.torch.graph.tensor_trees import Tensor

Tensors = Sequence[Tensor]


def _cond(
    pred: Any, yes: Callable[..., Any], no: Callable[..., Any], operands: Tensors = ()
) -> Any:
    return (yes if pred else no)(*operands)


def _while_loop(
    pred: Callable[..., Any], body: Callable[..., Any], carried: Tensors, more: Tensors = ()
) -> Any:
    while pred(*carried, *more):
        carried = body(*carried, *more)
    return carried


def _map(function: Callable[..., Any], xs: Tensors, more: Tensors) -> Any:
    return _stacked([function(*each, *more) for each in zip(*xs, strict=True)])


def _scan(function: Callable[..., Any], carried: Any, xs: Tensors, more: Tensors) -> Any:
    """What is carried after the last slice, and what each slice gives besides."""
    rows = []
    for each in zip(*xs, strict=True):
        carried, row = function(*pytree.tree_leaves(carried), *each, *more)
        rows.append(row)
    return carried, _stacked(rows)


def _stacked(rows: Sequence[Any]) -> Any:
    return pytree.tree_map(lambda *each: torch.stack(each), *rows)


FUNCTIONS: Mapping[Any, Callable[..., Any]] = {
    torch.ops.higher_order.cond: _cond,
    torch.ops.higher_order.while_loop: _while_loop,
    torch.ops.higher_order.map_impl: _map,
    torch.ops.higher_order.scan: _scan,
    torch.ops.higher_order.flex_attention: math_attention,
}
