"""Branches by elements: a trace follows one path, and a program tells whether a call takes it.

    if mask.any(): ...      %any is a result, which was taken to be false

A call that goes another way is computed by the program of its own path. At first `all` is taken to
be true, and whatever else to be false.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch._subclasses.fake_tensor import DataDependentOutputException
from torch.utils._python_dispatch import TorchDispatchMode

from shard_dialect.abi.tensor_types import Array
from shard_dialect.torch.graph.tensor_trees import Tensor

aten = torch.ops.aten


class OtherPathError(Exception):
    """A call decides otherwise than its program: `decided` is what is known of its path."""

    def __init__(self, decided: Sequence[bool]) -> None:
        super().__init__("a call takes another branch")
        self.decided = tuple(decided)


@dataclass(frozen=True)
class Decision:
    """What a program takes a truth value to be; it gives the value itself as a result."""

    path: Sequence[bool]
    """The decisions up to this one."""

    def check(self, found: Array) -> None:
        """Raise `OtherPathError` if the call decides otherwise."""
        value = bool(found.reshape(-1)[0])
        if value != self.path[-1]:
            raise OtherPathError((*self.path[:-1], value))


class Deciding(TorchDispatchMode):  # type: ignore[misc]
    """Within a `with` block, truth values are those of a path, and then guesses."""

    def __init__(self, path: Sequence[bool]) -> None:
        super().__init__()
        self.path = list(path)
        self.values: list[Tensor] = []
        """Those decided so far."""
        self._of_all: list[Tensor] = []

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        """As the base class does."""
        is_truth = func is aten._local_scalar_dense.default and args[0].dtype is torch.bool
        try:
            found = func(*args, **(kwargs or {}))
        except DataDependentOutputException:
            if not is_truth:
                raise
            found = None
        if is_truth and not isinstance(found, bool):
            return self._decided(args[0])
        if getattr(func, "overloadpacket", None) is aten.all:
            self._of_all.append(found)
        return found

    def _decided(self, value: Tensor) -> bool:
        number = len(self.values)
        self.values.append(value)
        if number == len(self.path):
            self.path.append(any(value is each for each in self._of_all))
        return self.path[number]

    def decisions(self) -> list[Decision]:
        """Of the path that was taken."""
        return [Decision(tuple(self.path[: number + 1])) for number in range(len(self.values))]


def deciding(function: Callable[..., Any], mode: Deciding) -> Callable[..., Any]:
    """A function whose results are followed by the truth values that it has decided by."""

    def run(*tensors: Tensor) -> Any:
        with mode:
            found = function(*tensors)
        return (*found, *(each.to(torch.int64) for each in mode.values))

    return run


def drop_scalars(graph: Any) -> None:
    """Erase the scalars that a trace has read and not used."""
    for node in reversed(list(graph.nodes)):
        value = node.meta.get("val")
        is_scalar = isinstance(value, (torch.SymBool, torch.SymInt))
        is_scalar |= node.target is aten._local_scalar_dense.default
        if is_scalar and not node.users and node.op == "call_function":
            graph.erase_node(node)
