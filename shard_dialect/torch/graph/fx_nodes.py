"""A node of a graph of torch.fx: its op alone, and where it stands in Python."""

from __future__ import annotations

import operator
import os
import re
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode


def is_node(value: Any) -> bool:
    """Whether it is a value of a graph."""
    return isinstance(value, torch.fx.Node)


def location_of(node: Any) -> str | None:
    """Where the call of the op stands, in Python: outside of torch, if the trace knows that."""
    meta = getattr(node, "meta", {})
    frames = re.findall(r'File "(.*)", line (\d+)', meta.get("stack_trace") or "")
    users = [each for each in frames if not each[0].startswith(_OURS)]
    return ":".join(users[-1]) if users else None


def is_of_user(path: str) -> bool:
    """Whether a file is neither torch's nor numpy's nor ours."""
    return not path.startswith((_OURS, _TORCHS, _NUMPYS, "<"))


_OURS = str(Path(__file__).parents[2]) + os.sep
_TORCHS = str(Path(torch.__file__).parent) + os.sep
_NUMPYS = str(Path(np.__file__).parent) + os.sep


def alone_with_types(node: Any) -> tuple[Any, str]:
    """A graph of this op, for operands of the same types; and these as text."""
    graph = torch.fx.Graph()
    operands: dict[Any, Any] = {}

    def own(value: Any) -> Any:
        if value not in operands:
            operands[value] = graph.placeholder(f"arg{len(operands)}")
            operands[value].meta = {"val": without_elements(value.meta.get("val"))}
        return operands[value]

    for value in node.all_input_nodes:
        own(value)
    args = torch.fx.map_arg(node.args, own)
    kwargs = torch.fx.map_arg(node.kwargs, own)
    op = graph.call_function(node.target, args, kwargs)
    op.meta = dict(node.meta)
    graph.output(tuple(_results(graph, op)))
    text = ", ".join(_type(value.meta.get("val")) for value in operands)
    return torch.fx.GraphModule(torch.nn.Module(), graph), text or "no tensors"


def without_elements(value: Any) -> Any:
    """The value of a node, where it is a tensor one without data."""
    is_real = isinstance(value, torch.Tensor) and not isinstance(value, FakeTensor)
    return FakeTensorMode().from_tensor(value) if is_real else value


def _results(graph: Any, op: Any) -> list[Any]:
    value = op.meta.get("val")
    if not isinstance(value, (tuple, list)):
        return [op]
    found = []
    for number, each in enumerate(value):
        if isinstance(each, torch.Tensor):
            found.append(graph.call_function(operator.getitem, (op, number)))
            found[-1].meta = {"val": each}
    return found


def _type(value: Any) -> str:
    if not isinstance(value, torch.Tensor):
        return str(value)
    return f"{str(value.dtype).removeprefix('torch.')}{list(value.shape)}"
