"""Calls of torch from compiled code: of ops that StableHLO does not have, as LAPACK's.

    {"op": "aten._linalg_svd.default", "args": [{"tensor": 0}, false], "kwargs": {}}

The text of a call is JSON, in whose values tensors are numbers of operands; those of a complex one
have the parts along a last dimension of two. So are complex results.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from typing import Any

from shard_dialect.abi.tensor_types import Array
from shard_dialect.errors import ShardError
from shard_dialect.runtime.shards_of_arrays import like, to_numpy

LIBRARIES = ("aten", "prims", "torch_nn")
"""Those of torch's ops: a program that is read from a file calls no others."""


def call_torch(text: str, operands: Sequence[Array], results: Sequence[Array]) -> None:
    """Compute `results` by an op of torch's own. Raises what it raises."""
    try:
        import torch
        from torch.utils._python_dispatch import _disable_current_modes
    except ImportError:
        raise ShardError("the program calls torch, which is not installed") from None
    op, args, kwargs = _read(text)
    of_torch = torch.empty(0)

    def tensor(value: Any) -> Any:
        if isinstance(value, list):
            return [tensor(each) for each in value]
        if not isinstance(value, dict):
            return value
        if "type" in value:
            return getattr(torch, value["type"])
        (number,) = value.values()
        if "number" in value:
            return complex(*number)
        found = like(operands[number].copy(), of_torch)
        return torch.view_as_complex(found) if "complex" in value else found

    with torch.no_grad(), _disable_current_modes():
        made = op(*map(tensor, args), **{key: tensor(each) for key, each in kwargs.items()})
        made = made if isinstance(made, (tuple, list)) else (made,)
        for into, each in zip(results, made, strict=True):
            each = torch.view_as_real(each.resolve_conj()) if each.is_complex() else each
            if tuple(each.shape) != into.shape:
                raise ShardError(f"{op} made {list(each.shape)}: expected {list(into.shape)}")
            into[...] = to_numpy(each)


@cache
def _read(text: str) -> tuple[Any, list[Any], dict[str, Any]]:
    import torch

    what = json.loads(text)
    library, name, overload = what["op"].split(".")
    if library not in LIBRARIES:
        raise ShardError(f"a call of {what['op']}, which is no op of torch's own")
    op = getattr(getattr(getattr(torch.ops, library), name), overload)
    return op, what["args"], what["kwargs"]
