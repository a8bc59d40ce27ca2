"""Decompositions that a trace runs once for all equal calls, as those of a model's layers.

    silu(x) of f32[8, 16]    ->   neg, exp, add, div      traced
    silu(y) of f32[8, 16]    ->   neg, exp, add, div      copied, with y in the place of x

Calls are equal if their operands have the same types, strides and constants. Where a result is a
view of an operand, or an operand's elements are known, each call is traced.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.fx.experimental.proxy_tensor import (
    disable_proxy_modes_tracing,
    get_proxy_mode,
    get_proxy_slot,
    track_tensor_tree,
)
from torch.utils import _pytree as pytree

Decomposition = Callable[..., Any]
_Key = tuple[Any, ...]


@dataclass(frozen=True)
class _Traced:
    """The nodes of a call, and its results: tensors of them, operands by number, or constants."""

    operands: Sequence[Any]
    """The nodes of the operands."""
    nodes: Sequence[Any]
    results: Sequence[Any]
    structure: Any

    def copied(self, tracer: Any, operands: Sequence[Any], tensors: Sequence[Any]) -> Any:
        """The results of a call like it, of other operands."""
        copies = dict(zip(self.operands, operands, strict=True))
        for node in self.nodes:
            args, kwargs = torch.fx.map_arg((node.args, node.kwargs), lambda n: copies.get(n, n))
            copies[node] = tracer.create_node(node.op, node.target, args, kwargs)
            for key in ("val", "tensor_meta"):
                if key in node.meta:
                    copies[node].meta[key] = node.meta[key]
        found = []
        for each in self.results:
            if isinstance(each, torch.fx.Node):
                made, proxy = _like(each.meta["val"]), tracer.proxy(copies[each])
                track_tensor_tree(made, proxy, constant=None, tracer=tracer)
                found.append(made)
            else:
                found.append(tensors[each] if isinstance(each, _Operand) else each)
        return pytree.tree_unflatten(found, self.structure)


class _Operand(int):
    """The number of an operand that is returned."""


def traced_once(table: Mapping[Any, Decomposition]) -> dict[Any, Decomposition]:
    """The decompositions, for one trace."""
    return {op: _once(each, {}) for op, each in table.items()}


def _once(decomposition: Decomposition, known: dict[_Key, _Traced | None]) -> Decomposition:
    def decomposed(*args: Any, **kwargs: Any) -> Any:
        leaves, structure = pytree.tree_flatten((args, kwargs))
        tracer: Any = getattr(get_proxy_mode(), "tracer", None)
        tensors = [each for each in leaves if isinstance(each, torch.Tensor)]
        proxies = [get_proxy_slot(each, tracer, default=None) for each in tensors]
        key = None if tracer is None else _key(leaves, proxies, structure)
        if key is None:
            return decomposition(*args, **kwargs)
        nodes = [each.proxy.node for each in proxies]
        if key in known:
            like = known[key]
            return like.copied(tracer, nodes, tensors) if like else decomposition(*args, **kwargs)
        before = len(tracer.graph.nodes)
        found = decomposition(*args, **kwargs)
        made = list(islice(reversed(tracer.graph.nodes), len(tracer.graph.nodes) - before))
        known[key] = _traced(tracer, nodes, tensors, made[::-1], found)
        return found

    return decomposed


def _key(leaves: Sequence[Any], proxies: Sequence[Any], structure: Any) -> _Key | None:
    """Equal for equal calls; nothing for a call of other values than plain ones."""
    if any(each is None or each.constant is not None for each in proxies):
        return None
    remaining, numbers, found = iter(proxies), dict[Any, int](), []
    for each in leaves:
        if isinstance(each, FakeTensor):
            number = numbers.setdefault(next(remaining).proxy.node, len(numbers))
            found.append((number, *_type(each)))
        elif isinstance(each, _PLAIN):
            found.append((type(each), repr(each)))
        else:
            return None
    return (*found, structure)


_OF_TORCH = (torch.dtype, torch.device, torch.layout, torch.memory_format)
_PLAIN = (bool, int, float, complex, str, type(None), *_OF_TORCH)


def _type(each: Any) -> _Key:
    bits = each.is_conj(), each.is_neg(), each.requires_grad, each.storage_offset()
    return each.dtype, tuple(each.shape), each.stride(), each.device, *bits


def _traced(
    tracer: Any, operands: Sequence[Any], tensors: Sequence[Any], nodes: Sequence[Any], found: Any
) -> _Traced | None:
    """What was traced, if it can be copied."""
    leaves, structure = pytree.tree_flatten(found)
    memory = {each.untyped_storage()._cdata for each in tensors}
    results, own = list[Any](), set(nodes)
    for each in leaves:
        at = next((number for number, other in enumerate(tensors) if other is each), None)
        if at is not None:
            results.append(_Operand(at))
            continue
        if not isinstance(each, torch.Tensor):
            results.append(each)
            continue
        slot = get_proxy_slot(each, tracer, default=None)
        is_view = each.storage_offset() or each.untyped_storage()._cdata in memory
        if is_view or slot is None or slot.constant is not None or slot.proxy.node not in own:
            return None
        results.append(slot.proxy.node)
    return _Traced(operands, nodes, results, structure)


def _like(value: Any) -> Any:
    with disable_proxy_modes_tracing():
        return torch.empty_strided(
            value.shape, value.stride(), dtype=value.dtype, device=value.device
        )
