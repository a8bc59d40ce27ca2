"""Random numbers of a module: functions of a seed and of positions in the whole tensors.

    %y, %mask = aten.native_dropout(%x, 0.1, True)
    ->  %noise = hash(%seed, number of the draw, position in the whole tensor) < 0.9

So they are the same on every mesh, and each device computes those of its shard. The seed is an
argument of the program, which torch's default generator draws at each call. They are not the
numbers of torch's own stream: with `rng="torch"` the noise itself is an argument, which torch draws
as it would in the module.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from math import log1p, pi
from typing import Any, Literal

import torch
from torch.fx.experimental.proxy_tensor import get_proxy_mode

from shard_dialect.errors import ShardError
from shard_dialect.torch.graph.exchanged import exchanged
from shard_dialect.torch.graph.fx_nodes import location_of
from shard_dialect.torch.graph.tensor_trees import Tensor

Rng = Literal["counter", "torch"]
Kind = Literal[
    "bernoulli",
    "uniform",
    "normal",
    "random",
    "exponential",
    "cauchy",
    "geometric",
    "log_normal",
    "permutation",
]
RANDOM = "random."
"""Before the names of arguments that are seeds or noise."""
aten = torch.ops.aten


@dataclass(frozen=True)
class Draw:
    """One draw: which numbers, and how many."""

    kind: Kind
    """As torch's method of a tensor, without the underscore."""
    shape: tuple[int, ...]
    dtype: Any
    parameters: tuple[Any, ...]
    strides: tuple[int, ...] = ()
    """torch draws in the order that the elements have in memory."""
    by_elements: bool = False
    """Whether torch draws as many as elements say, which nobody knows before."""

    def by_torch(self) -> Tensor:
        """Drawn by torch's default generator."""
        if self.kind == "permutation":
            return torch.randperm(*self.shape, dtype=self.dtype)
        strides = self.strides or torch.empty(self.shape, device="meta").stride()
        noise = torch.empty_strided(self.shape, strides, dtype=self.dtype)
        return getattr(noise, f"{self.kind}_")(*self.parameters).contiguous()

    def by_counter(self, seed: Tensor, number: int) -> Tensor:
        """A function of the seed, of the number of this draw, and of positions."""
        wide = self.dtype if self.dtype == torch.float64 else torch.float32
        if self.kind in ("normal", "log_normal"):
            mean, deviation = self.parameters
            radius = (-2 * (1 - self._uniform(seed, 2 * number, wide)).log()).sqrt()
            angle = 2 * pi * self._uniform(seed, 2 * number + 1, wide)
            found = mean + deviation * radius * angle.cos()
            found = found.exp() if self.kind == "log_normal" else found
        elif self.kind == "exponential":
            found = -(1 - self._uniform(seed, 2 * number, wide)).log() / self.parameters[0]
        elif self.kind == "cauchy":
            median, sigma = self.parameters
            found = median + sigma * (pi * (self._uniform(seed, 2 * number, wide) - 0.5)).tan()
        elif self.kind == "geometric":
            share = (1 - self._uniform(seed, 2 * number, wide)).log()
            found = (share / log1p(-self.parameters[0])).ceil().clamp(min=1)
        elif self.kind == "permutation":
            found = self._bits(seed, 2 * number).argsort()
        elif self.kind == "bernoulli":
            found = self._uniform(seed, 2 * number, wide) < self.parameters[0]
        elif self.kind == "uniform":
            low, high = self.parameters
            found = low + (high - low) * self._uniform(seed, 2 * number, wide)
        else:
            low, high = self.parameters
            found = low + (_shifted(self._bits(seed, 2 * number) * (high - low), 32))
        return found.to(self.dtype)

    def _uniform(self, seed: Tensor, stream: int, dtype: Any) -> Tensor:
        return _shifted(self._bits(seed, stream), 8).to(dtype) * 2.0**-24

    def _bits(self, seed: Tensor, stream: int) -> Tensor:
        """32 bits for each position."""
        low = _mixed((seed & _MASK) ^ torch.full_like(seed, stream & _MASK))
        high = _shifted(seed, 32)
        position = torch.zeros((), dtype=torch.int64)
        stride = 1
        for dim in reversed(range(len(self.shape))):
            along = torch.arange(self.shape[dim]) * stride
            position = position + along.view([-1] + [1] * (len(self.shape) - 1 - dim))
            stride *= self.shape[dim]
        bits = _mixed((position & _MASK) ^ low)
        return _mixed((bits + _shifted(position, 32) + high) & _MASK)


_MASK = (1 << 32) - 1


def _mixed(bits: Tensor) -> Tensor:
    """A permutation of 32 bits, without visible pattern (Wellons' triple32)."""
    for shift, factor in ((17, 0xED5AD4BB), (11, 0xAC4C1B51), (15, 0x31848BAB)):
        bits = ((bits ^ _shifted(bits, shift)) * factor) & _MASK
    return bits ^ _shifted(bits, 14)


def _shifted(bits: Tensor, count: int) -> Tensor:
    """To the right; numbers are positive."""
    return torch.div(bits, 1 << count, rounding_mode="floor")


def drawn_by(target: Any, args: Sequence[Any], kwargs: Mapping[str, Any], value: Any) -> Any:
    """The draw of an op, and the function from it to the op's results; `None` if it draws nothing.

    `value` is a tensor of the shape and the type of its (first) result.
    """
    name = _READ.get(target)
    if name is None:
        return None
    first = value[0] if isinstance(value, (tuple, list)) else value
    if first.is_complex():
        return None
    given = {each.name: each.default_value for each in target._schema.arguments}
    given |= dict(zip(given, args, strict=False)) | dict(kwargs)
    found = name(given, tuple(first.shape), first.dtype)
    if found is None:
        return None
    draw, finish = found
    return replace(draw, strides=tuple(first.stride())), finish


def _dropout(given: Any, shape: Any, dtype: Any) -> Any:
    p = given["p"]
    if not p or given["train"] is False:
        return None
    scale = 1 / (1 - p) if p < 1 else 0.0

    def finish(noise: Tensor) -> Any:
        mask = noise.to(torch.bool)
        return given["input"] * noise * scale, mask

    return Draw("bernoulli", shape, dtype, (1 - p,)), finish


def _rrelu(given: Any, shape: Any, dtype: Any) -> Any:
    """Drawn for what is not positive, and kept as slopes for the derivative."""
    if not given["training"]:
        return None
    slopes = given["lower"], given["upper"]

    def finish(noise: Tensor) -> Tensor:
        noise = torch.where(given["self"] <= 0, noise, 1.0)
        given["noise"].copy_(noise)
        return given["self"] * noise

    return Draw("uniform", shape, dtype, slopes, by_elements=True), finish


def _filled(kind: Any, *names: str) -> Callable[..., Any]:
    def read(given: Any, shape: Any, dtype: Any) -> Any:
        numbers = tuple(given[each] for each in names)
        return Draw(kind, shape, dtype, numbers), lambda noise: _put(given, noise)

    return read


def _plain(kind: Any, *numbers: Any) -> Callable[..., Any]:
    return lambda given, shape, dtype: (Draw(kind, shape, dtype, numbers), lambda noise: noise)


def _integers(given: Any, shape: Any, dtype: Any) -> Any:
    low = given.get("low", 0)
    return Draw("random", shape, dtype, (low, given["high"])), lambda noise: noise


def _put(given: Any, noise: Tensor) -> Tensor:
    """In the place of the tensor, for an op that writes to it."""
    tensor = given["self"]
    return tensor.copy_(noise)


def _by_shares(given: Any, shape: Any, dtype: Any) -> Any:
    """Of each element the probability."""
    shares = given["self"] if "p" not in given else given["p"]
    return Draw("uniform", shape, dtype, (0.0, 1.0)), lambda noise: (noise < shares).to(dtype)


def _around(given: Any, shape: Any, dtype: Any) -> Any:
    """The mean, the deviation, or both are of each element."""
    mean, deviation = given.get("mean", 0.0), given.get("std", 1.0)
    return Draw("normal", shape, dtype, (0.0, 1.0)), lambda noise: noise * deviation + mean


_READ: Mapping[Any, Callable[..., Any]] = {
    aten.bernoulli.default: _by_shares,
    aten.normal.Tensor_Tensor: _around,
    aten.normal.Tensor_float: _around,
    aten.normal.float_Tensor: _around,
    aten.normal.float_float: _around,
    aten.exponential_.default: _filled("exponential", "lambd"),
    aten.cauchy_.default: _filled("cauchy", "median", "sigma"),
    aten.geometric_.default: _filled("geometric", "p"),
    aten.log_normal_.default: _filled("log_normal", "mean", "std"),
    aten.native_dropout.default: _dropout,
    aten.rrelu_with_noise.default: _rrelu,
    aten.bernoulli_.float: _filled("bernoulli", "p"),
    aten.uniform_.default: _filled("uniform", "from", "to"),
    aten.normal_.default: _filled("normal", "mean", "std"),
    aten.bernoulli.p: lambda given, shape, dtype: (
        Draw("bernoulli", shape, dtype, (given["p"],)),
        lambda noise: noise,
    ),
    aten.randperm.default: _plain("permutation"),
    aten.randperm.generator: _plain("permutation"),
    aten.rand.default: _plain("uniform", 0.0, 1.0),
    aten.rand.generator: _plain("uniform", 0.0, 1.0),
    aten.randn.generator: _plain("normal", 0.0, 1.0),
    aten.randint.generator: _integers,
    aten.randint.low_generator: _integers,
    aten.rand_like.default: _plain("uniform", 0.0, 1.0),
    aten.randn.default: _plain("normal", 0.0, 1.0),
    aten.randn_like.default: _plain("normal", 0.0, 1.0),
    aten.randint.default: _integers,
    aten.randint.low: _integers,
    aten.randint_like.default: _integers,
    aten.randint_like.low_dtype: _integers,
}


def draws_of(graph: Any) -> list[Draw]:
    """The draws of a graph's ops, in order; of what is computed again, they are the same ones.

    Each node that draws gets the number of its draw in `meta["draw"]`.
    Raises `ShardError` for numbers of a generator that is not torch's default one.
    """
    found: list[Draw] = []
    next_one, kept = 0, dict[int, int]()
    for node in list(graph.nodes):
        if node.op != "call_function":
            continue
        if node.target in (_keep, _return_to):
            (number,) = node.args
            if node.target is _keep:
                kept[number] = next_one
            else:
                next_one = kept[number]
            graph.erase_node(node)
            continue
        drawn = drawn_by(node.target, node.args, node.kwargs, node.meta.get("val"))
        if drawn is None:
            continue
        if node.kwargs.get("generator") is not None:
            raise ShardError(
                "the module draws random numbers from a generator of its own: leave it out, or "
                "draw them outside and give them to it",
                location_of(node),
            )
        draw, _ = drawn
        if next_one < len(found) and found[next_one] != draw:
            raise refuse_replays(location_of(node))
        found[next_one : next_one + 1] = [draw]
        node.meta["draw"] = next_one
        next_one += 1
    return found


def _keep(number: int) -> None:
    """A node where the state of torch's generator is asked for."""


def _return_to(number: int) -> None:
    """A node where it is set to that state again."""


for _each in (_keep, _return_to):
    torch.fx.node.has_side_effect(_each)


@contextmanager
def noticing_replays() -> Iterator[Callable[[], bool]]:
    """Within a `with` block, the graph that is traced has nodes where torch's generator is set.

    It is, to an earlier state, as by checkpoints, which compute again what was drawn. What is
    yielded tells whether it was set to another one.
    """
    states: list[Tensor] = []
    own = {name: getattr(torch, name) for name in ("set_rng_state", "manual_seed", "seed")}
    own_state, others = torch.get_rng_state, list[str]()

    def note(target: Callable[[int], None], number: int) -> None:
        mode = get_proxy_mode()
        if mode is not None:
            mode.tracer.create_node("call_function", target, (number,), {})

    def get_rng_state() -> Tensor:
        note(_keep, len(states))
        states.append(own_state())
        return states[-1]

    def setting(name: str) -> Callable[..., Any]:
        def noticed(*args: Any) -> Any:
            for number, each in enumerate(states):
                if name == "set_rng_state" and args[0] is each:
                    return note(_return_to, number)
            others.append(name)
            return own[name](*args)

        return noticed

    with exchanged(torch, get_rng_state=get_rng_state, **{each: setting(each) for each in own}):
        yield lambda: bool(others)


def refuse_replays(location: str | None = None) -> ShardError:
    """The error for a module that draws the same numbers twice."""
    return ShardError(
        "the module draws random numbers, and sets torch's generator (manual_seed, or a state to "
        "draw other numbers from): leave that out, or draw them outside and give them to it",
        location,
    )
