"""Decoders written in JAX, as modules of the text that JAX lowers them to with Shardy.

    python -m benchmarks.decoders 24 [--training] > decoder.mlir

A layer is an attention and an MLP, each with a norm before it and its result added to what came
in. The batch is split along one axis of a grid of 2x4 devices, the weights along the other, and
each layer constrains the values between layers. Layers are not a loop: the text has each of them.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable

os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=8")

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AbstractMesh, Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

WIDTH, HEADS, HIDDEN = 256, 8, 1024
BATCH, LENGTH = 8, 64
RATE = 1e-2
Weights = dict[str, jax.Array]
_SHAPE, _AXES = (2, 4), ("data", "model")


def lowered(layers: int, mesh: Mesh | AbstractMesh, training: bool) -> jax.stages.Lowered:
    """What JAX lowers of a forward pass, or of a step of training that gives the new weights."""

    def sharded(shape: tuple[int, ...], *axes: str | None) -> jax.ShapeDtypeStruct:
        return jax.ShapeDtypeStruct(shape, jnp.float32, sharding=NamedSharding(mesh, P(*axes)))

    def norm(x: jax.Array) -> jax.Array:
        return x * jax.lax.rsqrt(jnp.mean(x * x, axis=-1, keepdims=True) + 1e-6)

    def layer(x: jax.Array, w: Weights) -> jax.Array:
        with jax.named_scope("attention"):
            y = norm(x)
            q, k, v = (jnp.einsum("bse,ehd->bshd", y, w[name]) for name in "qkv")
            scores = jnp.einsum("bshd,bthd->bhst", q, k) / (WIDTH // HEADS) ** 0.5
            mask = jnp.tril(jnp.ones(scores.shape[-2:], bool))
            scores = jnp.where(mask, scores, -1e9)
            weights = jax.nn.softmax(scores, axis=-1)
            x = x + jnp.einsum("bhst,bthd,hde->bse", weights, v, w["o"])
        with jax.named_scope("mlp"):
            x = x + jax.nn.gelu(norm(x) @ w["up"]) @ w["down"]
        return jax.lax.with_sharding_constraint(x, NamedSharding(mesh, P("data", None, None)))

    def model(ws: list[Weights], x: jax.Array) -> jax.Array:
        for number, w in enumerate(ws):
            with jax.named_scope(f"layer_{number}"):
                x = layer(x, w)
        return x

    def step(ws: list[Weights], x: jax.Array, target: jax.Array) -> tuple[list[Weights], jax.Array]:
        def loss(ws: list[Weights]) -> jax.Array:
            return jnp.mean((model(ws, x) - target) ** 2)

        found, gradients = jax.value_and_grad(loss)(ws)
        return jax.tree.map(lambda w, g: w - RATE * g, ws, gradients), found

    size = WIDTH // HEADS
    one = {
        **{name: sharded((WIDTH, HEADS, size), None, "model", None) for name in "qkv"},
        "o": sharded((HEADS, size, WIDTH), "model", None, None),
        "up": sharded((WIDTH, HIDDEN), None, "model"),
        "down": sharded((HIDDEN, WIDTH), "model", None),
    }
    x = sharded((BATCH, LENGTH, WIDTH), "data", None, None)
    traced = jax.jit(step).trace([one] * layers, x, x) if training else None
    return (traced or jax.jit(model).trace([one] * layers, x)).lower(lowering_platforms=("cpu",))


def decoder(layers: int, training: bool = False, *, scopes: bool = False) -> str:
    """The text of a decoder of so many layers: its forward pass, or a step of training.

    With `scopes`, the ops have their layers in their locations.
    """
    return str(lowered(layers, AbstractMesh(_SHAPE, _AXES), training).as_text(debug_info=scopes))


def xla(layers: int, training: bool) -> float:
    """The CPU seconds of XLA."""
    devices = np.array(jax.devices()[:8]).reshape(_SHAPE)
    program = lowered(layers, Mesh(devices, _AXES), training)
    return cpu_seconds(program.compile)


def cpu_seconds(work: Callable[[], object]) -> float:
    """The CPU seconds of this process for `work`."""
    begin = time.process_time()
    work()
    return time.process_time() - begin


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("layers", type=int, nargs="?", default=2)
    parser.add_argument("--training", action="store_true")
    options = parser.parse_args()
    print(decoder(options.layers, options.training), end="")


if __name__ == "__main__":
    main()
