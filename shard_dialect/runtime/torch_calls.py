"""Calls of torch from compiled code: of ops that StableHLO does not have, as LAPACK's.

    {"op": "aten.linalg_inv_ex.default",
     "args": [{"tensor": 0, "of": "float32"}], "kwargs": {"check_errors": true}}

The text of a call is JSON, in whose values tensors are numbers of operands; those of a complex one
have the parts along a last dimension of two. So are complex results.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from typing import Any

from shard_dialect.abi.tensor_types import Array
from shard_dialect.errors import ShardError, first_line_of
from shard_dialect.runtime.shards_of_arrays import like, to_numpy

LIBRARIES = ("aten", "prims", "torch_nn")
"""Those of torch's ops: a program that is read from a file calls no others."""


def call_torch(text: str, operands: Sequence[Array], results: Sequence[Array]) -> None:
    """Compute `results` by an op of torch's own.

    Raises a `ShardError` that is also of the class that torch raises, as for a singular matrix.
    """
    try:
        import torch
        from torch.utils._python_dispatch import _disable_current_modes
    except ImportError:
        raise ShardError("the program calls torch, which is not installed") from None
    op, args, kwargs = _read(text)
    with torch.no_grad(), _disable_current_modes():
        try:
            given = {key: _value(each, operands) for key, each in kwargs.items()}
            made = op(*(_value(each, operands) for each in args), **given)
        except (RuntimeError, TypeError, ValueError, LookupError, AttributeError) as error:
            raise _like(error) from None
        made = made if isinstance(made, (tuple, list)) else (made,)
        for into, each in zip(results, made, strict=True):
            _write(op, each, into)


def _like(error: Exception) -> Exception:
    kind: Any = type(error)
    found: Exception = type(kind.__name__, (ShardError, kind), {})(first_line_of(error))
    return found


@cache
def _read(text: str) -> tuple[Any, list[Any], dict[str, Any]]:
    """The op and its arguments; raises `ShardError` for what does more than compute of tensors."""
    import torch

    try:
        what = json.loads(text)
        library, name, overload = what["op"].split(".")
        op = getattr(getattr(getattr(torch.ops, library), name), overload)
        schema, args, kwargs = op._schema, list(what["args"]), dict(what["kwargs"])
    except (ValueError, KeyError, TypeError, AttributeError, RuntimeError) as error:
        raise ShardError(f"{text!r} is no call of torch: {first_line_of(error)}") from None
    of_tensors = schema.arguments and "Tensor" in str(schema.arguments[0].type)
    if library not in LIBRARIES or schema.is_mutable or not of_tensors:
        raise ShardError(f"a call of {what['op']}, which is no function of tensors of torch's own")
    return op, args, kwargs


def _value(written: Any, operands: Sequence[Array]) -> Any:
    """An argument of the op."""
    import torch

    if isinstance(written, list):
        return [_value(each, operands) for each in written]
    if not isinstance(written, dict):
        return written
    if "type" in written:
        return getattr(torch, written["type"])
    if "number" in written:
        return complex(*written["number"])
    if "complex" in written:
        return torch.view_as_complex(like(operands[written["complex"]].copy(), torch.empty(0)))
    tensor = like(operands[written["tensor"]].copy(), torch.empty(0))
    return tensor.view(getattr(torch, written["of"]))  # buffers have no unsigned integers


def _write(op: Any, made: Any, into: Array) -> None:
    import torch

    found = to_numpy(torch.view_as_real(made.resolve_conj()) if made.is_complex() else made)
    if found.dtype.kind == "u" and found.dtype.itemsize == into.dtype.itemsize:
        found = found.view(into.dtype)
    if (found.shape, found.dtype) != (into.shape, into.dtype):
        raise ShardError(
            f"{op} made {found.dtype}{list(found.shape)}: expected {into.dtype}{list(into.shape)}"
        )
    into[...] = found
