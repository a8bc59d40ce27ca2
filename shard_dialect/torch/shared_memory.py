"""Tensors that share memory, as views of one tensor do: what is written to one is in the others.

A program has each of its arguments in memory of its own.
"""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch

from shard_dialect.errors import ShardError
from shard_dialect.torch.graph.tensor_trees import Tensor


def refuse_shared(written: Collection[str], tensors: Mapping[str, Tensor]) -> None:
    """Raise `ShardError` if one of the tensors that a call writes to shares elements of another."""
    if not written:
        return
    for name, other in shared(tensors):
        if name in written or other in written:
            target = name if name in written else other
            raise ShardError(
                f"{target} is written to or trained, and {name} and {other} are in the same "
                "memory, which they are not in a program: give a clone() of one of them"
            )


def refuse_views(
    constants: Sequence[Tensor], state: Mapping[str, Tensor], updated: Collection[str]
) -> None:
    """Raise `ShardError` for a constant of a program that has elements of the state.

    A program for each of its versions is right for one that is such a tensor itself.
    """
    numbered = {str(number): each for number, each in enumerate(constants)}
    for name, other in shared({**state, **numbered}):
        is_between = other in numbered and name in state
        if is_between and (numbered[other] is not state[name] or name in updated):
            raise ShardError(
                f"forward reads a tensor in the memory of {name}, as a view of it in an "
                f"attribute: make the view of {name} in forward"
            )


def shared(tensors: Mapping[str, Tensor]) -> Iterator[tuple[str, str]]:
    """The names of two tensors that have elements in the same memory, for each two such."""
    by_storage: dict[int, list[str]] = {}
    for name, each in tensors.items():
        place = _storage(each)
        for other in by_storage.get(place, ()) if place else ():
            if np.shares_memory(_elements(each), _elements(tensors[other])):
                yield other, name
        by_storage.setdefault(place, []).append(name)


def cloned(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Copies of tensors without derivatives, which share memory where these do."""
    counts = Counter(map(_storage, tensors.values()))
    memo: dict[int, Any] = {}
    return {
        name: copy.deepcopy(each, memo)
        if counts[_storage(each)] > 1 and _storage(each)
        else each.clone()
        for name, each in tensors.items()
    }


def _storage(tensor: Tensor) -> int:
    """What is 0 of a tensor without elements, or without memory that it may share."""
    if tensor.is_meta or hasattr(tensor, "full_tensor") or tensor.layout != torch.strided:
        return 0
    place: int = tensor.untyped_storage().data_ptr()
    return place


def _elements(tensor: Tensor) -> Any:
    """An array of numpy in the place of the tensor, whose elements nobody reads."""
    size = tensor.element_size()
    place = {
        "version": 3,
        "typestr": f"|V{size}",
        "data": (tensor.data_ptr(), True),
        "shape": tuple(tensor.shape),
        "strides": tuple(size * each for each in tensor.stride()),
    }
    return np.asarray(SimpleNamespace(__array_interface__=place))
