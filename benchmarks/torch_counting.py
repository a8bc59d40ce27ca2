"""Counts what torch does on this device: its collectives, and its products."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import distributed as dist
from torch._subclasses.fake_tensor import FakeTensor
from torch.distributed.distributed_c10d import _resolve_process_group
from torch.distributed.tensor import DTensor
from torch.utils import _pytree as pytree
from torch.utils import flop_counter
from torch.utils._python_dispatch import TorchDispatchMode

from benchmarks.tally import COSTS, Tally

_COLLECTIVES = {
    "c10d.allgather_": ("all_gather", 1),
    "c10d._allgather_base_": ("all_gather", 1),
    "c10d.allreduce_": ("all_reduce", 0),
    "c10d.alltoall_base_": ("all_to_all", 1),
    "c10d.reduce_scatter_": ("reduce_scatter", 1),
    "c10d._reduce_scatter_base_": ("reduce_scatter", 1),
    "c10d.send": ("collective_permute", 0),
    "_c10d_functional.all_gather_into_tensor": ("all_gather", 0),
    "_c10d_functional.all_reduce": ("all_reduce", 0),
    "_c10d_functional.all_to_all_single": ("all_to_all", 0),
    "_c10d_functional.reduce_scatter_tensor": ("reduce_scatter", 0),
}
"""The kind, and which argument is the operand."""
_QUIET = {"c10d.recv_", "_c10d_functional.wait_tensor", "_c10d_functional._wrap_tensor_autograd"}
_aten = torch.ops.aten
_FORMULAS = flop_counter.flop_registry | {
    _aten._scaled_dot_product_flash_attention_for_cpu: lambda q, k, v, *_, **__: (
        flop_counter.sdpa_flop_count(q.shape, k.shape, v.shape)
    ),
    _aten._scaled_dot_product_flash_attention_for_cpu_backward: lambda made, q, k, v, *_, **__: (
        flop_counter.sdpa_backward_flop_count(made.shape, q.shape, k.shape, v.shape)
    ),
}


class Counting(TorchDispatchMode):  # type: ignore[misc]
    """Counts collectives, and what is done with plain tensors, which DTensor's ops come down to."""

    def __init__(self) -> None:
        super().__init__()
        self.tally = Tally()

    def __torch_dispatch__(
        self, func: Any, types: Sequence[type], args: Any = (), kwargs: Any = None
    ) -> Any:
        if any(issubclass(each, DTensor) for each in types):
            return NotImplemented
        made = func(*args, **(kwargs or {}))
        if any(issubclass(each, FakeTensor) for each in types):
            return made  # DTensor asks for the shape of a global result
        name = str(func._overloadpacket)
        if name in _COLLECTIVES:
            kind, at = _COLLECTIVES[name]
            operand = sum(each.nbytes for each in pytree.tree_leaves(args[at]))
            self.tally.add(kind, COSTS[kind](_group_size(args), operand))
        elif "c10d" in name and name not in _QUIET:
            raise ValueError(f"{name} is not counted")
        elif func._overloadpacket in _FORMULAS:
            if func._overloadpacket in flop_counter.flop_registry:
                kwargs = {**(kwargs or {}), "out_val": made}
            self.tally.flops += _FORMULAS[func._overloadpacket](*args, **(kwargs or {}))
        return made


def _group_size(args: Sequence[Any]) -> int:
    for each in args:
        if isinstance(each, torch.ScriptObject) and "ProcessGroup" in str(each._type()):
            return dist.ProcessGroup.unbox(each).size()
    return _resolve_process_group(next(each for each in args[::-1] if isinstance(each, str))).size()
