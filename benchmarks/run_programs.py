"""The programs that `benchmarks.run` times, each in JAX and in torch.

A program takes what the shapes of its arguments say, float32, and gives one tensor. `lies` names
for each argument the axis of the grid that splits each of its dimensions, and then for the result.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Shape = tuple[int, ...]
Lies = tuple[str | tuple[str, ...] | None, ...]


@dataclass(frozen=True)
class Program:
    """`name` is that of the two functions below, too: `_name_jax`, `_name_torch`."""

    name: str
    size: str
    arguments: tuple[Shape, ...]
    grid: Mapping[str, int]
    lies: tuple[Lies, ...]
    settings: tuple[int, ...] = ()

    @property
    def devices(self) -> int:
        return math.prod(self.grid.values())

    def inputs(self) -> list[NDArray[np.float32]]:
        """Scaled so that sums over the first dimension of a weight stay near one."""
        generator = np.random.default_rng(0)
        drawn = [generator.standard_normal(shape) for shape in self.arguments]
        scales = [1.0, *(1 / math.sqrt(math.prod(shape[:-1])) for shape in self.arguments[1:])]
        return [(x * s).astype(np.float32) for x, s in zip(drawn, scales, strict=True)]

    def in_jax(self) -> Any:
        return globals()[f"_{self.name}_jax"](*self.settings)

    @property
    def is_in_torch(self) -> bool:
        """Whether torch computes the same numbers: it draws random ones otherwise."""
        return f"_{self.name}_torch" in globals()

    def in_torch(self) -> Any:
        return globals()[f"_{self.name}_torch"](*self.settings)


def _mlp(size: str, rows: int, width: int, hidden: int, *, is_2d: bool = False) -> Program:
    arguments = ((rows, width), (width, hidden), (hidden, width))
    one: tuple[Lies, ...] = ((None, None), (None, "x"), ("x", None), (None, None))
    two: tuple[Lies, ...] = ((None, ("x", "y")), ("x", "y"), ("y", "x"), (None, ("x", "y")))
    if is_2d:
        return Program("mlp_2d", size, arguments, {"x": 2, "y": 2}, two)
    return Program("mlp", size, arguments, {"x": 2}, one)


def _megatron(size: str, batch: int, length: int, heads: int, width: int) -> Program:
    model = heads * width
    whole = (model,)
    qkv, out = (model, heads, width), (heads, width, model)
    up, down = (model, 4 * model), (4 * model, model)
    arguments = ((batch, length, model), whole, qkv, qkv, qkv, out, whole, up, down)
    split, replicated = (None, "x", None), (None, None, None)
    lies: tuple[Lies, ...] = (
        replicated, (None,), split, split, split, ("x", None, None), (None,),
        (None, "x"), ("x", None), replicated,
    )  # fmt: skip
    return Program("megatron", size, arguments, {"x": 2}, lies)


def _rows(name: str, size: str, *shapes: Shape) -> Program:
    """One that computes each row (of the first dimension) apart from the others."""
    lies: tuple[Lies, ...] = tuple(("x", *(None,) * (len(shape) - 1)) for shape in shapes)
    return Program(name, size, shapes, {"x": 2}, (*lies, lies[0]))


def _convolution(size: str, batch: int, width: int, features: int) -> Program:
    image = (batch, features, width, width)
    kernel = (features, features, 3, 3)
    lies: tuple[Lies, ...] = (
        (None, None, "x", None), (None,) * 4, (None,) * 4, (None, None, "x", None)
    )  # fmt: skip
    return Program("convolution", size, (image, kernel, kernel), {"x": 2}, lies)


def _transposed(size: str, rows: int, columns: int) -> Program:
    lies: tuple[Lies, ...] = ((None, "x"), ("x", None), ("x", None))
    return Program("transposed", size, ((rows, columns), (columns, rows)), {"x": 2}, lies)


def _recurrent(size: str, batch: int, steps: int, width: int) -> Program:
    """The gradient of a loop over steps, by its weights."""
    arguments = ((steps, batch, width), (width, width), (width, width))
    lies: tuple[Lies, ...] = ((None, "x", None), (None, None), (None, None), (None, None))
    return Program("recurrent", size, arguments, {"x": 2}, lies)


PROGRAMS = (
    _mlp("small", 64, 256, 1024),
    _mlp("large", 512, 1024, 4096),
    _mlp("small", 64, 256, 1024, is_2d=True),
    _mlp("large", 512, 1024, 4096, is_2d=True),
    _megatron("small", 2, 64, 4, 32),
    _megatron("large", 2, 512, 8, 64),
    _rows("softmax", "small", (64, 256)),
    _rows("softmax", "large", (2048, 1024)),
    _rows("attention", "small", *[(8, 64, 32)] * 3),
    _rows("attention", "large", *[(8, 512, 64)] * 3),
    _rows("elementwise", "small", (64, 256), (64, 256)),
    _rows("elementwise", "large", (2048, 1024), (2048, 1024)),
    _convolution("small", 1, 16, 8),
    _convolution("large", 2, 128, 32),
    _rows("cumulative", "small", (64, 256)),
    _rows("cumulative", "large", (1024, 2048)),
    _rows("routing", "small", (256, 16)),
    _rows("routing", "large", (2048, 4096)),
    _rows("rotary", "small", (8, 64, 64)),
    _rows("rotary", "large", (64, 512, 64)),
    _rows("dropout", "small", (64, 256)),
    _rows("dropout", "large", (1024, 1024)),
    _transposed("small", 64, 256),
    _transposed("large", 1024, 2048),
    _recurrent("small", 16, 32, 64),
    _recurrent("large", 128, 64, 256),
)


def chosen(names: Sequence[str]) -> list[Program]:
    return [p for p in PROGRAMS if not names or p.name in names or f"{p.name}:{p.size}" in names]


def _mlp_jax() -> Any:
    import jax

    return lambda x, up, down: jax.nn.gelu(x @ up, approximate=True) @ down


def _mlp_torch() -> Any:
    from torch.nn.functional import gelu

    return lambda x, up, down: gelu(x @ up, approximate="tanh") @ down


_mlp_2d_jax, _mlp_2d_torch = _mlp_jax, _mlp_torch


def _megatron_jax() -> Any:
    import jax
    import jax.numpy as jnp

    def normed(x: Any, scale: Any) -> Any:
        x = x - x.mean(axis=-1, keepdims=True)
        return x * jax.lax.rsqrt((x * x).mean(axis=-1, keepdims=True) + 1e-5) * scale

    def layer(x: Any, n1: Any, q: Any, k: Any, v: Any, o: Any, n2: Any, up: Any, down: Any) -> Any:
        length = x.shape[1]
        y = normed(x, n1)
        q, k, v = (jnp.einsum("bse,ehd->bhsd", y, weight) for weight in (q, k, v))
        scores = jnp.einsum("bhsd,bhtd->bhst", q, k) / math.sqrt(q.shape[-1])
        position = jnp.arange(length)
        scores = jnp.where(position[:, None] >= position, scores, -1e9)
        heads = jnp.einsum("bhst,bhtd->bshd", jax.nn.softmax(scores, axis=-1), v)
        x = x + jnp.einsum("bshd,hde->bse", heads, o)
        return x + jax.nn.gelu(normed(x, n2) @ up, approximate=True) @ down

    return layer


def _megatron_torch() -> Any:
    import torch
    from torch.nn.functional import gelu

    def normed(x: Any, scale: Any) -> Any:
        x = x - x.mean(dim=-1, keepdim=True)
        return x * torch.rsqrt((x * x).mean(dim=-1, keepdim=True) + 1e-5) * scale

    def layer(x: Any, n1: Any, q: Any, k: Any, v: Any, o: Any, n2: Any, up: Any, down: Any) -> Any:
        y = normed(x, n1)
        q, k, v = (torch.einsum("bse,ehd->bhsd", y, weight) for weight in (q, k, v))
        scores = torch.einsum("bhsd,bhtd->bhst", q, k) / math.sqrt(q.shape[-1])
        later = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1)
        low = torch.full((), -1e9)
        scores = torch.where(_like(later, scores), _like(low, scores), scores)
        heads = torch.einsum("bhst,bhtd->bshd", torch.softmax(scores, dim=-1), v)
        x = x + torch.einsum("bshd,hde->bse", heads, o)
        return x + gelu(normed(x, n2) @ up, approximate="tanh") @ down

    return layer


def _like(tensor: Any, other: Any) -> Any:
    """The plain tensor on every device of a DTensor's grid."""
    if type(other).__name__ != "DTensor":
        return tensor
    from torch.distributed.tensor import DTensor, Replicate

    return DTensor.from_local(tensor, other.device_mesh, [Replicate()], run_check=False)


def _softmax_jax() -> Any:
    import jax

    return lambda x: jax.nn.softmax(x, axis=-1)


def _softmax_torch() -> Any:
    import torch

    return lambda x: torch.softmax(x, dim=-1)


def _attention_jax() -> Any:
    import jax
    import jax.numpy as jnp

    def attention(q: Any, k: Any, v: Any) -> Any:
        scores = jnp.einsum("hsd,htd->hst", q, k) / math.sqrt(q.shape[-1])
        return jnp.einsum("hst,htd->hsd", jax.nn.softmax(scores, axis=-1), v)

    return attention


def _attention_torch() -> Any:
    import torch

    def attention(q: Any, k: Any, v: Any) -> Any:
        scores = torch.einsum("hsd,htd->hst", q, k) / math.sqrt(q.shape[-1])
        return torch.einsum("hst,htd->hsd", torch.softmax(scores, dim=-1), v)

    return attention


def _elementwise_jax() -> Any:
    import jax.numpy as jnp

    return lambda x, y: jnp.tanh(x) * jnp.exp(-y * y) + jnp.log1p(x * x)


def _elementwise_torch() -> Any:
    import torch

    return lambda x, y: torch.tanh(x) * torch.exp(-y * y) + torch.log1p(x * x)


def _convolution_jax() -> Any:
    import jax

    def layers(x: Any, *kernels: Any) -> Any:
        for kernel in kernels:
            x = jax.nn.relu(jax.lax.conv(x, kernel, (1, 1), "SAME"))
        return x

    return layers


def _convolution_torch() -> Any:
    from torch.nn.functional import conv2d, relu

    def layers(x: Any, *kernels: Any) -> Any:
        for kernel in kernels:
            x = relu(conv2d(x, kernel, padding=1))
        return x

    return layers


def _cumulative_jax() -> Any:
    import jax.numpy as jnp

    return lambda x: jnp.cumsum(x, axis=1)


def _cumulative_torch() -> Any:
    import torch

    return lambda x: torch.cumsum(x, dim=1)


def _routing_jax() -> Any:
    """The weights of the best eight of each row, in their order, and the rest of the row zero."""
    import jax
    import jax.numpy as jnp

    def route(x: Any) -> Any:
        best, _ = jax.lax.top_k(x, 8)
        return jnp.where(x >= best[:, -1:], jnp.exp(x - best[:, :1]), 0)

    return route


def _routing_torch() -> Any:
    import torch

    def route(x: Any) -> Any:
        best, _ = torch.topk(x, 8)
        return torch.where(x >= best[:, -1:], torch.exp(x - best[:, :1]), torch.zeros(()))

    return route


def _rotary_jax() -> Any:
    import jax.numpy as jnp

    def rotate(x: Any) -> Any:
        length, half = x.shape[1], x.shape[2] // 2
        angles = jnp.arange(length)[:, None] / 10_000 ** (jnp.arange(half) / half)
        angles = jnp.concatenate([angles, angles], axis=-1)
        turned = jnp.concatenate([-x[..., half:], x[..., :half]], axis=-1)
        return x * jnp.cos(angles) + turned * jnp.sin(angles)

    return rotate


def _rotary_torch() -> Any:
    import torch

    def rotate(x: Any) -> Any:
        length, half = x.shape[1], x.shape[2] // 2
        angles = torch.arange(length)[:, None] / 10_000 ** (torch.arange(half) / half)
        angles = torch.cat([angles, angles], dim=-1)
        turned = torch.cat([-x[..., half:], x[..., :half]], dim=-1)
        return x * torch.cos(angles) + turned * torch.sin(angles)

    return rotate


def _dropout_jax() -> Any:
    """With a key that is computed, else XLA would draw as it compiles."""
    import jax
    import jax.numpy as jnp

    def drop(x: Any) -> Any:
        key = jax.random.wrap_key_data(jnp.abs(x[0, :2] * 1000).astype(jnp.uint32))
        return jnp.where(jax.random.bernoulli(key, 0.9, x.shape), x / 0.9, 0)

    return drop


def _transposed_jax() -> Any:
    return lambda x, y: x.T + y


_transposed_torch = _transposed_jax


def _recurrent_jax() -> Any:
    import jax
    import jax.numpy as jnp

    def loss(w: Any, x: Any, u: Any) -> Any:
        def step(h: Any, each: Any) -> tuple[Any, None]:
            return jnp.tanh(each @ w + h @ u), None

        return jax.lax.scan(step, jnp.zeros(x.shape[1:]), x)[0].sum()

    return lambda x, w, u: jax.grad(loss)(w, x, u)


def _recurrent_torch() -> Any:
    import torch

    def gradient(x: Any, w: Any, u: Any) -> Any:
        with torch.enable_grad():
            w = w.detach().requires_grad_()
            h = torch.zeros(x.shape[1:])
            for each in x:
                h = torch.tanh(each @ w + h @ u)
            return torch.autograd.grad(h.sum(), w)[0]

    return gradient
