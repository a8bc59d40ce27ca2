"""What a traced graph computes of no argument: it is the same in each call.

%mask = aten.full([8, 8], -inf)         known
%row = aten.select(%mask, 0, 0)         known, and in the memory of %mask
%row_1 = aten.copy_(%row, %x)           of an argument: now all three are not known any more
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import _disable_current_modes


def constants_of(tracer: Any) -> dict[Any, Any]:
    """By node, the values that are constants, as they are where the graph ends now."""
    known: dict[Any, Any] = {}
    with _disable_current_modes(), torch.no_grad(), torch.autocast("cpu", enabled=False):
        for node in tracer.graph.nodes:
            found = _value_of(node, known, tracer.root)
            if found is not None:
                known[node] = found
            elif _writes(node):
                memory = _memory_of([known.get(each) for each in node.all_input_nodes])
                stays = {each: own for each, own in known.items() if not memory & _memory_of(own)}
                known = stays
    return known


def _value_of(node: Any, known: Mapping[Any, Any], root: Any) -> Any:
    """What a node is in each call, if it is the same; nothing of other nodes."""
    if node.op == "get_attr":
        own = getattr(root, node.target)
        return own.clone() if type(own) is torch.Tensor and not own.is_meta else None
    is_random = torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ())
    is_known = all(each in known for each in node.all_input_nodes)
    if node.op != "call_function" or is_random or not is_known:
        return None
    args, kwargs = torch.fx.map_arg((node.args, node.kwargs), known.__getitem__)
    try:
        found = node.target(*args, **kwargs)
    except Exception:  # as of what has no data
        return None
    return None if any(each.is_meta for each in _tensors_in(found)) else found


def _writes(node: Any) -> bool:
    return getattr(getattr(node.target, "_schema", None), "is_mutable", False)


def _tensors_in(tree: Any) -> list[Any]:
    return [each for each in pytree.tree_leaves(tree) if isinstance(each, torch.Tensor)]


def _memory_of(tree: Any) -> set[int]:
    return {each.untyped_storage().data_ptr() for each in _tensors_in(tree)}
