"""A decoder's training step in pipeline stages, from JAX: a loop over ticks (docs/pipeline.md).

    python -m benchmarks.pipelined_decoder                       a small one, beside the plain step
    python -m benchmarks.pipelined_decoder --write llama.mlir    Llama 3 405B's, on 16,384 devices
    shard-report llama.mlir

In each tick every stage computes a chunk of layers, on its own microbatch, and passes the result on
to the next stage: `jnp.roll` along a split dimension. Stage s has the chunks s, s + stages, and so
on (Megatron's interleaved schedule), so that a microbatch goes around several times. Layers that
are missing in the last round are skipped. The program grows neither with layers nor with
microbatches.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.ad_checkpoint import checkpoint_name
from jax.sharding import AbstractMesh, AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

import shard_dialect as sd

AXES = ("data", "stage", "context", "tensor")
TOKENS = ("context", "tensor")
"""The axes along which positions are split, between the halves of a layer."""

Weights = dict[str, jax.Array]
Layers = Callable[["Decoder", jax.Array, Weights], jax.Array]
State = tuple[Weights, Weights, Weights]
Carried = tuple[jax.Array, jax.Array]
Saved = tuple[jax.Array, jax.Array, jax.Array, jax.Array, jax.Array]


@dataclass(frozen=True)
class Decoder:
    """A decoder, and how it is trained on a grid of data, stages, context and tensor."""

    layers: int
    hidden: int
    heads: int
    groups: int  # of heads that share keys and values
    inner: int
    words: int
    length: int
    microbatches: int
    grid: tuple[int, int, int, int]
    dtype: Any = jnp.float32
    sequences: int = 1  # of a microbatch on each replica
    chunk: int = 1  # layers that a stage computes in one turn
    is_gpt: bool = False  # layer norms, biases, an MLP with GELU; else a Llama
    splits_length: bool = True  # along the tensor axis, between the halves of a layer
    splits_state: bool = True  # the weights and moments along the data axis
    gathers_layers: bool = False  # the weights of a layer where it is computed, not all at first
    keeps: tuple[str, ...] | None = ()  # what the backward pass finds of a layer, or None for all
    block: tuple[int, int] | None = None  # of queries and keys that attend at once; all if None

    @property
    def rounds(self) -> int:
        """How often a microbatch goes around."""
        return -(-self.layers // (self.grid[1] * self.chunk))

    def weights(self) -> dict[str, tuple[tuple[int, ...], P]]:
        """The shape and the sharding of each weight; of layers, by stage and number in it."""
        width, stages = self.hidden // self.heads, self.grid[1]
        data = "data" if self.splits_state else None
        layer: dict[str, tuple[tuple[int, ...], tuple[str | None, ...]]] = {
            "query": ((self.hidden, self.heads, width), (data, "tensor", None)),
            "key": ((self.hidden, self.groups, width), (data, "tensor", None)),
            "value": ((self.hidden, self.groups, width), (data, "tensor", None)),
            "out": ((self.heads, width, self.hidden), ("tensor", None, data)),
            "up": ((self.hidden, self.inner), (data, "tensor")),
            "down": ((self.inner, self.hidden), ("tensor", data)),
            "scale1": ((self.hidden,), (data,)),
            "scale2": ((self.hidden,), (data,)),
        }
        if self.is_gpt:
            for name in ("shift1", "shift2", "out_bias", "down_bias"):
                layer[name] = ((self.hidden,), (data,))
            layer["up_bias"] = ((self.inner,), ("tensor",))
            for name, heads in (
                ("query", self.heads),
                ("key", self.groups),
                ("value", self.groups),
            ):
                layer[f"{name}_bias"] = ((heads, width), ("tensor", None))
        else:
            layer["gate"] = layer["up"]
        stacked = {
            name: ((stages, self.rounds * self.chunk, *shape), P("stage", None, *spec))
            for name, (shape, spec) in layer.items()
        }
        return {
            "embedding": ((self.words, self.hidden), P("tensor", data)),
            "head": ((self.hidden, self.words), P(data, "tensor")),
            **stacked,
        }

    @property
    def between(self) -> P:
        """How [batch, length, hidden] is split between the halves of a layer."""
        return P("data", TOKENS if self.splits_length else "context", None)


def normalized(x: jax.Array, w: Weights, number: int) -> jax.Array:
    """Divide by the root mean square; in a GPT, by the standard deviation."""
    wide = x.astype(jnp.float32)
    if f"shift{number}" in w:
        wide -= jnp.mean(wide, -1, keepdims=True)
    y = (wide * lax.rsqrt(jnp.mean(wide**2, -1, keepdims=True) + 1e-5)).astype(x.dtype)
    y *= w[f"scale{number}"]
    return y + w[f"shift{number}"] if f"shift{number}" in w else y


def attention(decoder: Decoder, query: jax.Array, key: jax.Array, value: jax.Array) -> jax.Array:
    """Causal attention of [batch, length, heads, width], of all queries at once or in blocks.

    Each part of the sequence attends to the keys and values of all parts.
    """
    batch, length, groups, width = key.shape
    key, value = (
        lax.with_sharding_constraint(each, P("data", None, "tensor", None)) for each in (key, value)
    )
    grouped = query.reshape(batch, decoder.grid[2], -1, groups, decoder.heads // groups, width)
    if decoder.block is not None:
        mixed = attended_in_blocks(decoder.block, grouped, key, value)
    else:
        positions = jnp.arange(length)
        scores = scored(grouped, key, positions.reshape(decoder.grid[2], -1), positions)
        mixed = mixed_by(jax.nn.softmax(scores), value)
    return mixed.astype(query.dtype).reshape(query.shape)


def scored(query: jax.Array, key: jax.Array, at: jax.Array, key_at: jax.Array) -> jax.Array:
    """The scores [batch, part, queries, groups, heads, keys] of queries and keys at positions."""
    scores = jnp.einsum("bpqngd,bknd->bpqngk", query, key).astype(jnp.float32)
    hidden = jnp.where(at[:, :, None, None, None] >= key_at, 0.0, -1e9)
    return scores * key.shape[-1] ** -0.5 + hidden


def mixed_by(weights: jax.Array, value: jax.Array) -> jax.Array:
    """The values, mixed by these weights."""
    return jnp.einsum("bpqngk,bknd->bpqngd", weights.astype(value.dtype), value)


def in_blocks(x: jax.Array, axis: int, size: int) -> jax.Array:
    """Blocks of this size of an axis, one after another."""
    shape = (*x.shape[:axis], -1, size, *x.shape[axis + 1 :])
    return jnp.moveaxis(x.reshape(shape), axis, 0)


def joined(blocks: jax.Array, axis: int) -> jax.Array:
    """What `in_blocks` has taken apart."""
    x = jnp.moveaxis(blocks, 0, axis)
    return x.reshape(*x.shape[:axis], -1, *x.shape[axis + 2 :])


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def attended_in_blocks(
    block: tuple[int, int], query: jax.Array, key: jax.Array, value: jax.Array
) -> jax.Array:
    """Attention in blocks of so many queries and keys, whose scores are never stored.

    Source: Dao and others, FlashAttention, 2022.
    """
    return _attended(block, query, key, value)[0]


def _attended(
    block: tuple[int, int], query: jax.Array, key: jax.Array, value: jax.Array
) -> tuple[jax.Array, Saved]:
    queries, keys = _queries(block[0], query), _keys(block[1], key, value)

    def of_queries(_: None, given: tuple[jax.Array, jax.Array]) -> tuple[None, Any]:
        query, at = given

        def of_keys(carried: Any, given: tuple[jax.Array, jax.Array, jax.Array]) -> Any:
            most, total, mixed = carried
            key, value, key_at = given
            scores = scored(query, key, at, key_at)
            new = jnp.maximum(most, jnp.max(scores, -1))
            weights, less = jnp.exp(scores - new[..., None]), jnp.exp(most - new)
            total = total * less + jnp.sum(weights, -1)
            return (new, total, mixed * less[..., None] + mixed_by(weights, value)), None

        zeros = jnp.zeros(query.shape, jnp.float32)
        start = jnp.full(query.shape[:-1], -jnp.inf), zeros[..., 0], zeros
        (most, total, mixed), _ = lax.scan(of_keys, start, keys)
        return None, ((mixed / total[..., None]).astype(query.dtype), most + jnp.log(total))

    _, (mixed, logs) = lax.scan(of_queries, None, queries)
    mixed = joined(mixed, 2)
    return mixed, (query, key, value, mixed, logs)


def _gradients(
    block: tuple[int, int], saved: Saved, gradient: jax.Array
) -> tuple[jax.Array, jax.Array, jax.Array]:
    query, key, value, mixed, logs = saved
    keys = _keys(block[1], key, value)
    own = jnp.sum(mixed.astype(jnp.float32) * gradient, -1)
    given = in_blocks(gradient, 2, block[0]), in_blocks(own, 2, block[0]), logs

    def of_queries(carried: Any, given: Any) -> tuple[Any, jax.Array]:
        (query, at), (gradient, own, logs) = given

        def of_keys(of_query: jax.Array, given: tuple[jax.Array, jax.Array, jax.Array]) -> Any:
            key, value, key_at = given
            weights = jnp.exp(scored(query, key, at, key_at) - logs[..., None])
            of_value = jnp.einsum("bpqngk,bpqngd->bknd", weights.astype(key.dtype), gradient)
            of_weights = jnp.einsum("bpqngd,bknd->bpqngk", gradient, value)
            of_scores = (weights * (of_weights - own[..., None])).astype(key.dtype)
            of_scores *= key.shape[-1] ** -0.5
            of_key = jnp.einsum("bpqngk,bpqngd->bknd", of_scores, query)
            return of_query + mixed_by(of_scores, key), (of_key, of_value)

        of_query, more = lax.scan(of_keys, jnp.zeros(query.shape, jnp.float32), keys)
        return jax.tree.map(jnp.add, carried, more), of_query.astype(query.dtype)

    zeros = jnp.zeros(keys[0].shape, jnp.float32)
    turns = _queries(block[0], query), given
    (of_key, of_value), of_query = lax.scan(of_queries, (zeros, zeros), turns)
    of_key, of_value = (joined(each, 1).astype(key.dtype) for each in (of_key, of_value))
    return joined(of_query, 2), of_key, of_value


def _queries(size: int, query: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Blocks of the queries of each part, and their positions.

    The barrier keeps JAX from storing the masks of all blocks before the loop over ticks, since
    they are the same in each.
    """
    positions = jnp.arange(query.shape[1] * query.shape[2]).reshape(query.shape[1:3])
    query, positions = lax.optimization_barrier((query, positions))
    return in_blocks(query, 2, size), in_blocks(positions, 1, size)


def _keys(size: int, key: jax.Array, value: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Blocks of the keys and values, and their positions."""
    key, positions = lax.optimization_barrier((key, jnp.arange(key.shape[1])))
    return in_blocks(key, 1, size), in_blocks(value, 1, size), in_blocks(positions, 0, size)


attended_in_blocks.defvjp(_attended, _gradients)


def layer(decoder: Decoder, x: jax.Array, w: Weights) -> jax.Array:
    """One layer on tokens of [batch, length, hidden]."""
    by_head, by_column = P("data", "context", "tensor", None), P("data", "context", "tensor")

    def kept(name: str, value: jax.Array, spec: P) -> jax.Array:
        named = checkpoint_name(lax.with_sharding_constraint(value, spec), name)
        return lax.with_sharding_constraint(named, spec)  # so it is kept

    def biased(name: str, value: jax.Array) -> jax.Array:
        return value + w[f"{name}_bias"] if f"{name}_bias" in w else value

    x = lax.with_sharding_constraint(x, decoder.between)
    y = normalized(x, w, 1)
    query, key, value = (
        kept(name, biased(name, jnp.einsum("bsh,hnd->bsnd", y, w[name])), by_head)
        for name in ("query", "key", "value")
    )
    mixed = kept("mixed", attention(decoder, query, key, value), by_head)
    x += biased("out", jnp.einsum("bsnd,ndh->bsh", mixed, w["out"]))
    x = kept("middle", x, decoder.between)
    y = normalized(x, w, 2)
    inner = kept("up", biased("up", y @ w["up"]), by_column)
    if decoder.is_gpt:
        inner = jax.nn.gelu(inner)
    else:
        inner *= jax.nn.silu(kept("gate", y @ w["gate"], by_column))
    inner = lax.with_sharding_constraint(inner, by_column)
    return lax.with_sharding_constraint(x + biased("down", inner @ w["down"]), decoder.between)


def layers_in_stages(decoder: Decoder, x: jax.Array, w: Weights) -> jax.Array:
    """All layers on microbatches of [microbatches, batch, length, hidden]."""
    count, stages = decoder.microbatches, decoder.grid[1]
    turns = count * decoder.rounds
    whole = {k: unsplit(spec) for k, (_, spec) in decoder.weights().items() if k in w}

    def one(x: jax.Array, w: Weights, first: jax.Array, turn: jax.Array, number: int) -> jax.Array:
        """The layer of this number in a chunk."""
        at = turn * decoder.chunk + number
        mine = {k: lax.dynamic_index_in_dim(v, at, keepdims=False) for k, v in w.items()}
        if decoder.gathers_layers:
            for name, spec in whole.items():
                mine[name] = lax.with_sharding_constraint(mine[name], P(*spec[2:]))
        return jnp.where(first + number < decoder.layers, layer(decoder, x, mine), x)

    if decoder.keeps is not None:
        policy = jax.checkpoint_policies.save_only_these_names(*decoder.keeps)
        one = jax.checkpoint(one, policy=policy, static_argnums=4)

    def work(stage: jax.Array, tick: jax.Array, x: jax.Array, w: Weights) -> jax.Array:
        """What a stage does in a tick; `w` has its layers, a chunk a round."""
        turn = jnp.clip(tick - stage, 0, turns - 1) // count
        first = (turn * stages + stage) * decoder.chunk
        for number in range(decoder.chunk):
            kept = lax.with_sharding_constraint(x, P("data", TOKENS, None))
            x = one(kept, w, first, turn, number)
        return x

    work = jax.vmap(work, (0, None, 0, 0), spmd_axis_name="stage")
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
    waiting = lax.with_sharding_constraint(waiting, P("stage", None, "data", TOKENS, None))
    state = in_stages(jnp.zeros((stages, *x.shape[1:]), x.dtype))
    (state, waiting), _ = lax.scan(turn, (state, waiting), jnp.arange(turns + stages - 1))
    come = jnp.arange(count) == (turns - 1) % count
    waiting = jnp.where(come[None, :, None, None, None], state[:, None], waiting)
    return jnp.sum(jnp.where((stage == 0)[:, None, None, None, None], waiting, 0), 0)


def unsplit(spec: P) -> P:
    """The sharding of a weight that is gathered along the data axis."""
    return P(*(None if axis == "data" else axis for axis in spec))


def in_stages(state: jax.Array) -> jax.Array:
    """What each stage works on, split among the stages."""
    return lax.with_sharding_constraint(state, P("stage", "data", TOKENS, None))


def layers_in_a_row(decoder: Decoder, x: jax.Array, w: Weights) -> jax.Array:
    """The same without stages."""
    assert decoder.chunk == 1
    in_order = {k: jnp.swapaxes(v, 0, 1).reshape(-1, *v.shape[2:]) for k, v in w.items()}
    rows = {k: v[: decoder.layers] for k, v in in_order.items()}
    step = jax.vmap(partial(layer, decoder), (0, None))
    return lax.scan(lambda x, w: (step(x, w), None), x, rows)[0]


def loss(
    decoder: Decoder, layers: Layers, weights: Weights, tokens: jax.Array, targets: jax.Array
) -> jax.Array:
    """The mean loss on tokens of [microbatches, batch, length]."""
    weights = {k: v.astype(decoder.dtype) for k, v in weights.items()}
    for name, (_, spec) in decoder.weights().items():  # gathered once, from where they are kept
        if not (decoder.gathers_layers and "stage" in spec):
            weights[name] = lax.with_sharding_constraint(weights[name], unsplit(spec))
    x = lax.with_sharding_constraint(
        weights.pop("embedding")[tokens], P(None, "data", TOKENS, None)
    )
    head = weights.pop("head")
    x = layers(decoder, x, weights)
    x = lax.with_sharding_constraint(x, P("stage", "data", TOKENS, None))  # all stages have a share
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


SMALL = Decoder(7, 16, 4, 2, 32, 64, 8, 4, (2, 2, 1, 2), sequences=2, block=(2, 4))
PRODUCTS = ("query", "key", "value", "mixed", "middle", "up", "gate")
LLAMA_405B = Decoder(
    126,
    16384,
    128,
    8,
    53248,
    128256,
    8192,
    16,  # microbatches of one sequence: 2,048 sequences a step
    (128, 16, 1, 8),
    jnp.bfloat16,
    keeps=PRODUCTS,
    block=(128, 2048),
)


def batch_of(decoder: Decoder) -> tuple[int, int, int]:
    """The shape of the tokens of a step: [microbatches, sequences, length]."""
    return decoder.microbatches, decoder.grid[0] * decoder.sequences, decoder.length


def compare(decoder: Decoder) -> None:
    """A small step on eight devices, and on one."""
    jax.config.update("jax_num_cpu_devices", 8)
    mesh = jax.make_mesh(decoder.grid, AXES, axis_types=(AxisType.Auto,) * 4)
    rng = np.random.default_rng(0)
    shapes = decoder.weights()
    weights = {k: rng.normal(size=shape).astype("f") / 4 for k, (shape, _) in shapes.items()}
    zeros = {k: np.zeros_like(v) for k, v in weights.items()}
    tokens, targets = rng.integers(0, decoder.words, (2, *batch_of(decoder)))
    specs = {k: spec for k, (_, spec) in shapes.items()}
    by_batch = P(None, "data", "context")
    pipelined = sd.jax.jit(
        partial(step, decoder, layers_in_stages),
        mesh=mesh,
        in_shardings=((specs,) * 3, by_batch, by_batch),
        out_shardings=((specs,) * 3, P()),
    )
    arguments = ((weights, zeros, zeros), tokens, targets)
    print(sd.communication(pipelined.lower(*arguments)))
    with jax.set_mesh(jax.make_mesh((1, 1, 1, 1), AXES, axis_types=(AxisType.Auto,) * 4)):
        expected = jax.jit(partial(step, decoder, layers_in_a_row))(*arguments)
    jax.tree.map(
        partial(np.testing.assert_allclose, rtol=1e-3, atol=1e-4), pipelined(*arguments), expected
    )
    print("equal to the step without stages")


def write(decoder: Decoder, path: Path) -> None:
    """Write the step of a decoder that no computer at hand could run."""
    mesh = AbstractMesh(decoder.grid, AXES, axis_types=(AxisType.Auto,) * 4)

    def described(shape: tuple[int, ...], dtype: Any, spec: P) -> jax.ShapeDtypeStruct:
        return jax.ShapeDtypeStruct(shape, dtype, sharding=NamedSharding(mesh, spec))

    weights = {
        k: described(shape, jnp.float32, spec) for k, (shape, spec) in decoder.weights().items()
    }
    tokens = described(batch_of(decoder), jnp.int32, P(None, "data", "context"))
    with jax.sharding.use_abstract_mesh(mesh):
        traced = jax.jit(partial(step, decoder, layers_in_stages), donate_argnums=0).trace(
            (weights,) * 3, tokens, tokens
        )
    path.write_text(traced.lower(lowering_platforms=("cuda",)).as_text())


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="A decoder in pipeline stages.")
    parser.add_argument("--write", type=Path, metavar="FILE", help="write Llama 3 405B's step")
    parser.add_argument("--small", action="store_true", help="write the small one's")
    parser.add_argument(
        "--context", action="store_true", help="the small one, with parts of sequences"
    )
    parser.add_argument("--at-once", action="store_true", help="attend from all queries at once")
    parser.add_argument("--replicas", type=int, help="the size of the data axis")
    given = parser.parse_args()
    decoder = LLAMA_405B if given.write and not given.small else SMALL
    decoder = replace(decoder, grid=(1, 2, 2, 2)) if given.context else decoder
    decoder = replace(decoder, block=None) if given.at_once else decoder
    if given.replicas:
        decoder = replace(decoder, grid=(given.replicas, *decoder.grid[1:]))
    write(decoder, given.write) if given.write else compare(decoder)
