"""What a module takes from elements: a trace follows one path, and a program tells if a call does.

    if mask.any(): ...      %any is a result, which was taken to be 0
    y = x[mask]             %count is a result, which was taken to be 3: y has 3 rows

A call that goes another way is computed by the program of its own path. What a trace takes values
to be is what they are for the example that it is given, as far as that has elements. Else `all` is
taken to be true, other truth values to be false, and masks to choose everything.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import torch
from torch._dispatch.python import no_python_dispatcher
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensor,
)
from torch.fx.experimental.proxy_tensor import get_proxy_mode, get_proxy_slot
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes

from shard_dialect.abi.tensor_types import Array
from shard_dialect.torch.graph import decided_sizes
from shard_dialect.torch.graph.fx_nodes import is_of_user
from shard_dialect.torch.graph.tensor_trees import Tensor, has_derivative

aten = torch.ops.aten


@dataclass(frozen=True)
class Foreseen:
    """What is known of a path before it is traced."""

    known: Sequence[int] = ()
    likely: Sequence[int] = ()
    """What may follow: of a call that decided in another way before."""
    agreed: Callable[[int | None], int | None] = lambda value: value
    """Of the values that the ranks foresee, one."""


UNKNOWN = Foreseen()


class OtherPathError(Exception):
    """A call decides otherwise than its program."""

    def __init__(self, foreseen: Foreseen) -> None:
        super().__init__("a call takes another path")
        self.foreseen = foreseen


@dataclass(frozen=True)
class Decision:
    """What a program takes a truth value or a whole number to be; the value itself is a result."""

    value: int
    location: str | None

    @staticmethod
    def found(array: Array) -> int:
        """What it is for a call."""
        return int(array.reshape(-1)[0])


def check_path(path: Sequence[int], found: Sequence[int]) -> None:
    """Raise `OtherPathError` if a call decides otherwise."""
    for number, (taken, value) in enumerate(zip(path, found, strict=True)):
        if taken != value:
            raise OtherPathError(Foreseen(found[: number + 1], found[number + 1 :]))


class UndecidedError(Exception):
    """A value would decide, where none may."""


class Deciding(TorchDispatchMode):  # type: ignore[misc]
    """Within a `with` block, values that decide are those of a path, and then foreseen ones."""

    def __init__(
        self, foreseen: Foreseen, examples: Sequence[Tensor], *, decides: bool = True
    ) -> None:
        super().__init__()
        self.decides = decides
        """Whether any value may; else `UndecidedError` is raised for the first one."""
        self.foreseen = foreseen
        self.path = list(foreseen.known)
        self.values: list[Tensor] = []
        """Those decided so far."""
        self.decisions: list[Decision] = []
        self._elements = _Elements(examples)
        self._strays = False
        """Whether the example takes another path than the known one, as by rounding."""
        self._of_all: list[Tensor] = []
        self._sizes: dict[Any, tuple[Tensor, int]] = {}

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        """As the base class does."""
        sized = decided_sizes.OPS.get(func)
        if sized is not None and _has_fakes((args, kwargs)):
            found = sized(self.decide, *args, **(kwargs or {}))
            if found is not NotImplemented:
                return found
        is_read = func is aten._local_scalar_dense.default and not has_derivative(args[0])
        try:
            found = func(*args, **(kwargs or {}))
        except (DataDependentOutputException, DynamicOutputShapeException):
            if not is_read:
                raise
            found = None
        if is_read and not isinstance(found, (bool, int)):
            likely = any(args[0] is each for each in self._of_all)
            value = self.decide(args[0], int(likely))
            return bool(value) if args[0].dtype == torch.bool else value
        if getattr(func, "overloadpacket", None) is aten.all:
            self._of_all.append(found)
        return found

    def decide(self, value: Tensor, guess: int, of: Tensor | None = None) -> int:
        """What the path takes a value to be. It is one decision if it is the size `of` a tensor."""
        if not self.decides:
            raise UndecidedError
        key = None if of is None or of.is_inference() else (id(of), of._version)
        if key in self._sizes:
            return self._sizes[key][1]
        number, seen = len(self.values), self._elements.of(value)
        if number < len(self.path):
            self._strays |= seen is not None and seen != self.path[number]
        else:
            self.path.append(self._foresee(number, seen, guess))
        self.values.append(value.clone())  # what it was then: a flag may be set in that branch
        found = int(self.path[number])
        self.decisions.append(Decision(found, _line_of_user()))
        if key is not None:
            self._sizes[key] = of, found  # which keeps the tensor, and so its id
        return found

    def _foresee(self, number: int, seen: int | None, guess: int) -> int:
        """What the example says; where it has not said what is known before, what is likely."""
        likely = self.foreseen.likely[number - len(self.foreseen.known) :][:1]
        said = [*likely, seen] if self._strays else [seen, *likely]
        found = next((each for each in said if each is not None), None)
        # The Python dispatcher would hold the GIL while ranks meet. A thread of gloo that frees the
        # tensor of an earlier meeting waits for the GIL, with the lock that a new one waits for.
        with _disable_current_modes(), no_python_dispatcher():
            found = self.foreseen.agreed(found)
        return guess if found is None else found


def deciding(function: Callable[..., Any], mode: Deciding) -> Callable[..., Any]:
    """A function whose results are followed by the values that it has decided by."""

    def run(*tensors: Tensor) -> Any:
        with mode:
            found = function(*tensors)
        return (*found, *(each.to(torch.int64) for each in mode.values))

    return run


def other_than(value: int) -> int:
    """What else to try where a path has no trace: a truth value is 0 or 1, a size small."""
    return 1 if value != 1 else 0


class _Elements:
    """What the values of a graph, which is being traced, are for an example."""

    def __init__(self, examples: Sequence[Tensor]) -> None:
        self._rest = iter(examples)
        self._values: dict[Any, Any] = {}
        self._random = torch.get_rng_state()

    def of(self, tensor: Tensor) -> int | None:
        """A whole number, or nothing if the example has no elements."""
        tracer: Any = get_proxy_mode().tracer
        slot: Any = get_proxy_slot(tensor, tracer, default=None)
        if slot is None:
            return None
        with (
            _disable_current_modes(),
            torch.no_grad(),
            torch.autocast("cpu", enabled=False),
        ):
            before = torch.default_generator.get_state()
            torch.default_generator.set_state(self._random)
            for node in islice(tracer.graph.nodes, len(self._values), None):
                self._values[node] = self._run(node, tracer.root)
            self._random = torch.default_generator.get_state()
            torch.default_generator.set_state(before)
            found = self._values.get(slot.proxy.node)  # None in a graph inside of this one
            return None if found is None else int(found)

    def _run(self, node: Any, root: Any) -> Any:
        if node.op == "placeholder":
            each = next(self._rest)
            return None if each.is_meta or isinstance(each, FakeTensor) else each
        if node.op == "get_attr":
            return getattr(root, node.target)
        if any(self._values[each] is None for each in node.all_input_nodes):
            return None
        args, kwargs = torch.fx.map_arg((node.args, node.kwargs), self._values.__getitem__)
        try:
            return node.target(*args, **kwargs)
        except Exception:  # what torch refuses is no example
            return None


def _has_fakes(tree: Any) -> bool:
    return any(isinstance(each, FakeTensor) for each in torch.utils._pytree.tree_leaves(tree))


def _line_of_user() -> str | None:
    """Where the module is that is being traced."""
    frame: Any = sys._getframe(1)
    while frame is not None:
        if is_of_user(frame.f_code.co_filename):
            return f"{frame.f_code.co_filename}:{frame.f_lineno}"
        frame = frame.f_back
    return None


def drop_scalars(graph: Any) -> None:
    """Erase the scalars that a trace has read and not used."""
    for node in reversed(list(graph.nodes)):
        value = node.meta.get("val")
        is_scalar = isinstance(value, (torch.SymBool, torch.SymInt))
        is_scalar |= node.target is aten._local_scalar_dense.default
        if is_scalar and not node.users and node.op == "call_function":
            graph.erase_node(node)
