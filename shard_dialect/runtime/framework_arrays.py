"""Arrays of numpy, JAX and torch as numpy's, and back; in one memory where that is possible."""

from __future__ import annotations

import sys
from typing import Any

import ml_dtypes
import numpy as np

from shard_dialect.codegen.array_types import Array


def to_numpy(array: Any) -> Array:
    """The elements of an array of any framework, or of nested lists of numbers."""
    torch = sys.modules.get("torch")
    if torch is None or not isinstance(array, torch.Tensor):
        return np.asarray(array)
    tensor = array.detach().cpu()
    if tensor.dtype == torch.bfloat16:  # which numpy itself does not know
        bits: Array = tensor.contiguous().view(torch.int16).numpy()
        return bits.view(ml_dtypes.bfloat16)
    found: Array = tensor.resolve_conj().numpy()
    return found


def is_jax(array: Any) -> bool:
    """Whether an array is one of JAX."""
    jax = sys.modules.get("jax")
    return jax is not None and isinstance(array, jax.Array)


def like(array: Array, example: Any) -> Any:
    """The array as one of the framework that `example` is of; numpy's for anything else."""
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(example, torch.Tensor):
        if array.dtype == ml_dtypes.bfloat16:
            return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
        return torch.from_numpy(array)
    if is_jax(example):
        return sys.modules["jax"].numpy.asarray(array)
    return array
