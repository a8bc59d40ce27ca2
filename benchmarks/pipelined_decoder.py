"""A decoder's training step in pipeline stages, from JAX: a loop over ticks (docs/pipeline.md).

    python -m benchmarks.pipelined_decoder                       a small one, beside the plain step
    python -m benchmarks.pipelined_decoder --write llama.mlir    Llama 3 405B's, on 16,384 devices
    shard-report llama.mlir

In each tick every stage computes a layer, on its own microbatch, and passes the result on to the
next stage: `jnp.roll` along a split dimension. Stage s has the layers s, s + stages, and so on
(Megatron's interleaved schedule), so that a microbatch goes around several times. Layers that are
missing in the last round are skipped. The program grows neither with layers nor with microbatches.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import AbstractMesh, AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

import shard_dialect as sd

AXES = ("data", "stage", "tensor")

Weights = dict[str, jax.Array]
Layers = Callable[["Decoder", jax.Array, Weights], jax.Array]
State = tuple[Weights, Weights, Weights]
Carried = tuple[jax.Array, jax.Array]


@dataclass(frozen=True)
class Decoder:
    """A Llama, and the grid that trains it."""

    layers: int
    hidden: int
    heads: int
    groups: int  # of heads that share keys and values
    inner: int
    words: int
    length: int
    microbatches: int
    grid: tuple[int, int, int]
    dtype: Any = jnp.float32

    @property
    def rounds(self) -> int:
        """How often a microbatch goes around."""
        return -(-self.layers // self.grid[1])

    def weights(self) -> dict[str, tuple[tuple[int, ...], P]]:
        """The shape and the sharding of each weight; those of layers by round and stage."""
        width, rounds, stages = self.hidden // self.heads, self.rounds, self.grid[1]
        layer = {
            "query": ((self.hidden, self.heads, width), ("data", "tensor", None)),
            "key": ((self.hidden, self.groups, width), ("data", "tensor", None)),
            "value": ((self.hidden, self.groups, width), ("data", "tensor", None)),
            "out": ((self.heads, width, self.hidden), ("tensor", None, "data")),
            "gate": ((self.hidden, self.inner), ("data", "tensor")),
            "up": ((self.hidden, self.inner), ("data", "tensor")),
            "down": ((self.inner, self.hidden), ("tensor", "data")),
            "scale1": ((self.hidden,), ("data",)),
            "scale2": ((self.hidden,), ("data",)),
        }
        stacked = {
            name: ((rounds, stages, *shape), P(None, "stage", *spec))
            for name, (shape, spec) in layer.items()
        }
        return {
            "embedding": ((self.words, self.hidden), P("tensor", "data")),
            "head": ((self.hidden, self.words), P("data", "tensor")),
            **stacked,
        }


def normalized(x: jax.Array, scale: jax.Array) -> jax.Array:
    """Divide by the root mean square."""
    wide = x.astype(jnp.float32)
    return (wide * lax.rsqrt(jnp.mean(wide**2, -1, keepdims=True) + 1e-5)).astype(x.dtype) * scale


def layer(x: jax.Array, w: Weights) -> jax.Array:
    """One layer on tokens of [batch, length, hidden]; between its halves the length is split."""
    between, by_head = P("data", "tensor", None), P("data", None, "tensor", None)
    x = lax.with_sharding_constraint(x, between)
    y = normalized(x, w["scale1"])
    query, key, value = (
        lax.with_sharding_constraint(jnp.einsum("bsh,hnd->bsnd", y, w[name]), by_head)
        for name in ("query", "key", "value")
    )
    query = query.reshape(*key.shape[:3], -1, key.shape[3])
    scores = jnp.einsum("bsngd,btngd->bngst", query, key[:, :, :, None]) * key.shape[3] ** -0.5
    length = x.shape[1]
    scores = jnp.where(jnp.tril(jnp.ones((length, length), bool)), scores, -1e9)
    weights = jax.nn.softmax(scores.astype(jnp.float32)).astype(x.dtype)
    mixed = jnp.einsum("bngst,btnd->bsngd", weights, value).reshape(*x.shape[:2], -1, key.shape[3])
    x += jnp.einsum("bsnd,ndh->bsh", mixed, w["out"])
    x = lax.with_sharding_constraint(x, between)
    y = normalized(x, w["scale2"])
    inner = jax.nn.silu(y @ w["gate"]) * (y @ w["up"])
    inner = lax.with_sharding_constraint(inner, P("data", None, "tensor"))
    return lax.with_sharding_constraint(x + inner @ w["down"], between)


def layers_in_stages(decoder: Decoder, x: jax.Array, w: Weights) -> jax.Array:
    """All layers on microbatches of [microbatches, batch, length, hidden]."""
    count, stages = decoder.microbatches, decoder.grid[1]
    turns = count * decoder.rounds

    def work(stage: jax.Array, tick: jax.Array, x: jax.Array, w: Weights) -> jax.Array:
        """What a stage does in a tick; `w` has its layers, one a round."""
        number = jnp.clip(tick - stage, 0, turns - 1) // count
        mine = {k: lax.dynamic_index_in_dim(v, number, keepdims=False) for k, v in w.items()}
        return jnp.where(number * stages + stage < decoder.layers, layer(x, mine), x)

    work = jax.vmap(jax.checkpoint(work), (0, None, 0, 1), spmd_axis_name="stage")
    stage = jnp.arange(stages)

    def turn(carried: Carried, tick: jax.Array) -> tuple[Carried, None]:
        """What waits at stage 0 goes in, and what each stage passes on waits at the next one."""
        come = (tick - stages) % count  # what the last stage has passed on in the tick before
        state, waiting = carried
        old = lax.dynamic_index_in_dim(waiting, come, 1, keepdims=False)
        kept = jnp.where(tick < stages, old, state)
        waiting = lax.dynamic_update_index_in_dim(waiting, kept, come, 1)
        first = lax.dynamic_index_in_dim(waiting, tick % count, 1, keepdims=False)
        state = jnp.where((stage == 0)[:, None, None, None], first, state)
        state = jnp.roll(work(stage, tick, state, w), 1, 0)
        return (in_stages(state), waiting), None

    waiting = jnp.broadcast_to(x, (stages, *x.shape))
    waiting = lax.with_sharding_constraint(waiting, P("stage", None, "data", "tensor", None))
    state = in_stages(jnp.zeros((stages, *x.shape[1:]), x.dtype))
    (state, waiting), _ = lax.scan(turn, (state, waiting), jnp.arange(turns + stages - 1))
    come = jnp.arange(count) == (turns - 1) % count
    waiting = jnp.where(come[None, :, None, None, None], state[:, None], waiting)
    return jnp.sum(jnp.where((stage == 0)[:, None, None, None, None], waiting, 0), 0)


def in_stages(state: jax.Array) -> jax.Array:
    """What each stage works on, split among the stages."""
    return lax.with_sharding_constraint(state, P("stage", "data", "tensor", None))


def layers_in_a_row(decoder: Decoder, x: jax.Array, w: Weights) -> jax.Array:
    """The same without stages."""
    rows = {k: v.reshape(-1, *v.shape[2:])[: decoder.layers] for k, v in w.items()}
    step = jax.vmap(layer, (0, None))
    return lax.scan(lambda x, w: (step(x, w), None), x, rows)[0]


def loss(
    decoder: Decoder, layers: Layers, weights: Weights, tokens: jax.Array, targets: jax.Array
) -> jax.Array:
    """The mean loss on tokens of [microbatches, batch, length]."""
    weights = {k: v.astype(decoder.dtype) for k, v in weights.items()}
    for name, (_, spec) in decoder.weights().items():  # gathered once, from where they are kept
        whole = P(*(None if axis == "data" else axis for axis in spec))
        weights[name] = lax.with_sharding_constraint(weights[name], whole)
    x = lax.with_sharding_constraint(
        weights.pop("embedding")[tokens], P(None, "data", "tensor", None)
    )
    head = weights.pop("head")
    x = layers(decoder, x, weights)
    x = lax.with_sharding_constraint(
        x, P("stage", "data", "tensor", None)
    )  # all stages have a share
    logits = (x @ head).astype(jnp.float32)
    chosen = jnp.take_along_axis(logits, targets[..., None], -1)[..., 0]
    return jnp.mean(jax.nn.logsumexp(logits, -1) - chosen)


def step(
    decoder: Decoder, layers: Layers, state: State, tokens: jax.Array, targets: jax.Array
) -> tuple[State, jax.Array]:
    """One step of Adam, on weights, first and second moments."""
    weights, first, second = state
    value, gradient = jax.value_and_grad(partial(loss, decoder, layers))(weights, tokens, targets)
    first = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, first, gradient)
    second = jax.tree.map(lambda v, g: 0.95 * v + 0.05 * g**2, second, gradient)
    change = jax.tree.map(lambda m, v: 1e-3 * m / (jnp.sqrt(v) + 1e-6), first, second)
    return (jax.tree.map(jnp.subtract, weights, change), first, second), value


SMALL = Decoder(7, 16, 4, 2, 32, 64, 8, 4, (2, 2, 2))
LLAMA_405B = Decoder(
    126, 16384, 128, 8, 53248, 128256, 8192, 16, (128, 16, 8), jnp.bfloat16
)  # one sequence a microbatch, 2,048 a step


def compare() -> None:
    """The small step on eight devices, and on one."""
    jax.config.update("jax_num_cpu_devices", 8)
    mesh = jax.make_mesh(SMALL.grid, AXES, axis_types=(AxisType.Auto,) * 3)
    rng = np.random.default_rng(0)
    shapes = SMALL.weights()
    weights = {k: rng.normal(size=shape).astype("f") / 4 for k, (shape, _) in shapes.items()}
    zeros = {k: np.zeros_like(v) for k, v in weights.items()}
    tokens, targets = rng.integers(0, SMALL.words, (2, SMALL.microbatches, 4, SMALL.length))
    specs = {k: spec for k, (_, spec) in shapes.items()}
    by_batch = P(None, "data")
    pipelined = sd.jax.jit(
        partial(step, SMALL, layers_in_stages),
        mesh=mesh,
        in_shardings=((specs,) * 3, by_batch, by_batch),
        out_shardings=((specs,) * 3, P()),
    )
    arguments = ((weights, zeros, zeros), tokens, targets)
    print(sd.communication(pipelined.lower(*arguments)))
    with jax.set_mesh(jax.make_mesh((1, 1, 1), AXES, axis_types=(AxisType.Auto,) * 3)):
        expected = jax.jit(partial(step, SMALL, layers_in_a_row))(*arguments)
    jax.tree.map(
        partial(np.testing.assert_allclose, rtol=1e-3, atol=1e-4), pipelined(*arguments), expected
    )
    print("equal to the step without stages")


def write(decoder: Decoder, path: Path) -> None:
    """Write the step of a decoder that no computer at hand could run."""
    mesh = AbstractMesh(decoder.grid, AXES, axis_types=(AxisType.Auto,) * 3)

    def described(shape: tuple[int, ...], dtype: Any, spec: P) -> jax.ShapeDtypeStruct:
        return jax.ShapeDtypeStruct(shape, dtype, sharding=NamedSharding(mesh, spec))

    weights = {
        k: described(shape, jnp.float32, spec) for k, (shape, spec) in decoder.weights().items()
    }
    batch = (decoder.microbatches, decoder.grid[0], decoder.length)
    tokens = described(batch, jnp.int32, P(None, "data"))
    with jax.sharding.use_abstract_mesh(mesh):
        traced = jax.jit(partial(step, decoder, layers_in_stages)).trace(
            (weights,) * 3, tokens, tokens
        )
    path.write_text(traced.lower(lowering_platforms=("cuda",)).as_text())


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="A decoder in pipeline stages.")
    parser.add_argument("--write", type=Path, metavar="FILE", help="write Llama 3 405B's step")
    parser.add_argument("--small", action="store_true", help="write the small one's")
    given = parser.parse_args()
    write(SMALL if given.small else LLAMA_405B, given.write) if given.write else compare()
