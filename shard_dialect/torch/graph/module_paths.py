"""The module in which each op of a trace is, as its location names it: the layers of a report.

loc("layers.0/mlp/mm"("model.py":12:0))     in `mlp` of `layers.0`, as JAX names its scopes
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

import torch
from torch.fx import traceback as fx_traceback
from torch.nn.modules import module as calls

_KEY = "nn_module_stack"


@contextmanager
def naming_modules(root: Any) -> Iterator[None]:
    """Within a `with` block, nodes of a trace get the modules that are being called."""
    names = {id(each): name for name, each in root.named_modules()}
    stack: list[str] = []

    def enter(module: Any, _: Any) -> None:
        stack.append(names.get(id(module), ""))
        _note(stack)

    def leave(*_: Any) -> None:
        stack.pop()
        _note(stack)

    before = calls.register_module_forward_pre_hook(enter)
    after = calls.register_module_forward_hook(leave, always_call=True)
    try:
        with fx_traceback.preserve_node_meta():
            yield
    finally:
        before.remove()
        after.remove()
        fx_traceback.current_meta.pop(_KEY, None)


def _note(stack: list[str]) -> None:
    fx_traceback.current_meta[_KEY] = {name: (name, torch.nn.Module) for name in stack if name}


def layer_of(node: Any) -> str | None:
    """The modules around a node, the outermost first, each by its name in the one around it."""
    names = ["", *getattr(node, "meta", {}).get(_KEY, {})]
    own = [inner.removeprefix(f"{outer}.") if outer else inner for outer, inner in pairwise(names)]
    return "/".join(own) or None
