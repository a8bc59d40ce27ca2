"""A decoder's training step in pipeline stages, from JAX: a loop over ticks (docs/pipeline.md).

    python -m benchmarks.pipelined_decoder                       a small one, beside the plain step
    python -m benchmarks.pipelined_decoder --experts             one with experts, as DeepSeek-V3
    python -m benchmarks.pipelined_decoder --write llama.mlir    Llama 3 405B's, on 16,384 devices
    shard-report llama.mlir
    python -m benchmarks.pipelined_decoder --write plain.mlir --plain [--llama-8b]
    shard-opt plain.mlir --erase-sharding | shard-opt - --auto=devices=128,memory-limit=80000000000

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
class Experts:
    """A layer's mixture of experts, split among the replicas, beside one that all tokens take."""

    count: int
    chosen: int  # for each token
    inner: int
    room: int = 1  # the slots of an expert, over those that it needs if tokens choose all alike


@dataclass(frozen=True)
class Latent:
    """Latent attention: keys and values are made of one narrow vector a token, queries of another.

    Source: DeepSeek-V2, 2024.
    """

    query: int
    key: int
    position: int  # of a key, beside what each head has of its own
    width: int  # of a head's values, and of what a key has of its own


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
    block: int | None = None  # of tokens that attend at once; all if None
    experts: Experts | None = None
    latent: Latent | None = None
    narrow: Any = None  # the type of products' operands, and of what is sent to experts
    halves: int = 1  # of a microbatch, each computed by itself, while the other communicates

    @property
    def rounds(self) -> int:
        """How often a microbatch goes around."""
        return -(-self.layers // (self.grid[1] * self.chunk))

    def weights(self) -> dict[str, tuple[tuple[int, ...], P]]:
        """The shape and the sharding of each weight; of layers, by stage and number in it."""
        stages, data = self.grid[1], "data" if self.splits_state else None
        width, query, key = self.hidden // self.heads, self.hidden, self.hidden
        if self.latent:
            width, query, key = self.latent.width, self.latent.query, self.latent.key
        own = width + (self.latent.position if self.latent else 0)
        layer: dict[str, tuple[tuple[int, ...], tuple[str | None, ...]]] = {
            "query": ((query, self.heads, own), (data, "tensor", None)),
            "key": ((key, self.groups, width), (data, "tensor", None)),
            "value": ((key, self.groups, width), (data, "tensor", None)),
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
        if self.latent:
            layer["to_query"] = ((self.hidden, query), (data, None))
            layer["to_key"] = ((self.hidden, key + self.latent.position), (data, None))
        if self.experts:
            count, inner = self.experts.count, self.experts.inner
            layer["router"] = ((self.hidden, count), (data, None))
            layer["up_experts"] = ((count, self.hidden, inner), ("data", None, "tensor"))
            layer["gate_experts"] = layer["up_experts"]
            layer["down_experts"] = ((count, inner, self.hidden), ("data", "tensor", None))
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
        at = jnp.arange(length)
        scores = jnp.einsum("bpqngd,bknd->bpqngk", grouped, key).astype(jnp.float32)
        hidden = at.reshape(decoder.grid[2], -1, 1, 1, 1) < at
        weights = jax.nn.softmax(jnp.where(hidden, -1e9, scores * width**-0.5)).astype(value.dtype)
        mixed = jnp.einsum("bpqngk,bknd->bpqngd", weights, value)
    return mixed.astype(query.dtype).reshape(*query.shape[:-1], -1)


def order_of(parts: int, length: int, block: int) -> np.ndarray:
    """The blocks of the sequence as the parts hold them: [parts, pairs, 2].

    A block of the first half of the sequence is beside one of the second, so that each pair attends
    to as many blocks: 0 and 7 to 1 and 8, 1 and 6 to 2 and 7.
    """
    count = length // block
    first = np.arange(count // 2).reshape(parts, -1)
    return np.stack([first, count - 1 - first], -1)


def in_parts(decoder: Decoder, tokens: jax.Array) -> jax.Array:
    """Tokens [..., length] in the order in which attention in blocks has them."""
    if decoder.block is None:
        return tokens
    order = order_of(decoder.grid[2], decoder.length, decoder.block).ravel()
    blocks = tokens.reshape(*tokens.shape[:-1], -1, decoder.block)
    return blocks[..., order, :].reshape(tokens.shape)


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def attended_in_blocks(block: int, query: jax.Array, key: jax.Array, value: jax.Array) -> jax.Array:
    """Attention in blocks of so many tokens in the order of `order_of`; scores are never stored.

    Blocks of keys that are hidden from all queries of a block are not computed. Source: Dao and
    others, FlashAttention, 2022; the order is that of Llama 3's context parallelism (2024).
    """
    return _attended(block, query, key, value)[0]


@dataclass(frozen=True)
class Turn:
    """Which blocks of queries and keys the parts compute with at once, each with its own."""

    half: jax.Array
    """Which block of the pair has the queries, for each part."""
    keys: jax.Array
    """Which block has the keys, in their order, for each part."""
    hidden: jax.Array
    """What is added to scores: [parts, 1, queries, 1, 1, keys]."""

    @classmethod
    def of(cls, first: jax.Array, number: jax.Array, count: int, block: int) -> Turn:
        """The turn of this number, where the parts have pairs that begin with these blocks."""
        half = jnp.where(number <= first, 0, 1)
        queries = jnp.where(half == 0, first, count - 1 - first)
        keys = jnp.where(half == 0, number, number - first - 1)
        places = jnp.where(keys < count // 2, 2 * keys, 2 * (count - 1 - keys) + 1)
        at, ahead = jnp.arange(block), (queries - keys) * block
        is_hidden = ahead.reshape(-1, 1, 1, 1, 1, 1) + at.reshape(-1, 1, 1, 1) < at
        return cls(half, places, jnp.where(is_hidden, -1e9, 0.0))

    def scores(self, query: jax.Array, key: jax.Array) -> jax.Array:
        """The scores [parts, batch, queries, groups, heads, keys]."""
        scores = jnp.einsum("pbqngd,pbknd->pbqngk", query, key).astype(jnp.float32)
        return scores * key.shape[-1] ** -0.5 + self.hidden


@jax.vmap
def taken(blocks: jax.Array, at: jax.Array) -> jax.Array:
    """Of [parts, blocks, ...] the block of each part."""
    return lax.dynamic_index_in_dim(blocks, at, keepdims=False)


@jax.vmap
def put(blocks: jax.Array, at: jax.Array, new: jax.Array) -> jax.Array:
    """[parts, blocks, ...] with another block of each part."""
    return lax.dynamic_update_index_in_dim(blocks, new, at, 0)


def _mixed_by(weights: jax.Array, value: jax.Array) -> jax.Array:
    """The values of blocks of keys, mixed by these weights."""
    return jnp.einsum("pbqngk,pbknd->pbqngd", weights.astype(value.dtype), value)


def _attended(
    block: int, query: jax.Array, key: jax.Array, value: jax.Array
) -> tuple[jax.Array, Saved]:
    pairs, first = _pairs(block, query)
    keys, values = (_blocks(block, each) for each in (key, value))
    count = len(keys)

    def of_pair(_: None, given: tuple[jax.Array, jax.Array]) -> tuple[None, Any]:
        query, first = given

        def turn(carried: tuple[jax.Array, ...], number: jax.Array) -> Any:
            now = Turn.of(first, number, count, block)
            most, total, mixed = (taken(each, now.half) for each in carried)
            scores = now.scores(taken(query, now.half), keys[now.keys])
            new = jnp.maximum(most, jnp.max(scores, -1))
            weights, less = jnp.exp(scores - new[..., None]), jnp.exp(most - new)
            total = total * less + jnp.sum(weights, -1)
            mixed = mixed * less[..., None] + _mixed_by(weights, values[now.keys])
            made = zip(carried, (new, total, mixed), strict=True)
            return tuple(put(each, now.half, new) for each, new in made), None

        zeros = jnp.zeros((*query.shape[:-1], value.shape[-1]), jnp.float32)
        start = jnp.full(query.shape[:-1], -jnp.inf), zeros[..., 0], zeros
        (most, total, mixed), _ = lax.scan(turn, start, jnp.arange(count + 1))
        return None, ((mixed / total[..., None]).astype(query.dtype), most + jnp.log(total))

    _, (mixed, logs) = lax.scan(of_pair, None, (pairs, first))
    mixed = _joined(mixed)
    return mixed, (query, key, value, mixed, logs)


def _gradients(
    block: int, saved: Saved, gradient: jax.Array
) -> tuple[jax.Array, jax.Array, jax.Array]:
    query, key, value, mixed, logs = saved
    pairs, first = _pairs(block, query)
    keys, values = (_blocks(block, each) for each in (key, value))
    count = len(keys)
    own = jnp.sum(mixed.astype(jnp.float32) * gradient, -1)
    given = pairs, first, _pairs(block, gradient)[0], _pairs(block, own)[0], logs

    def of_pair(sums: tuple[jax.Array, jax.Array], given: Any) -> Any:
        query, first, *others = given

        def turn(carried: tuple[jax.Array, jax.Array, jax.Array], number: jax.Array) -> Any:
            of_query, of_key, of_value = carried
            now = Turn.of(first, number, count, block)
            mine, gradient, own, logs = (taken(each, now.half) for each in (query, *others))
            key = keys[now.keys]
            weights = jnp.exp(now.scores(mine, key) - logs[..., None])
            of_weights = jnp.einsum("pbqngd,pbknd->pbqngk", gradient, values[now.keys])
            of_scores = (weights * (of_weights - own[..., None])).astype(key.dtype)
            of_scores *= key.shape[-1] ** -0.5
            more = taken(of_query, now.half) + _mixed_by(of_scores, key)
            of_query = put(of_query, now.half, more)
            more = jnp.einsum("pbqngk,pbqngd->pbknd", of_scores, mine)
            of_key = put(of_key, now.keys, taken(of_key, now.keys) + more)
            more = jnp.einsum("pbqngk,pbqngd->pbknd", weights.astype(key.dtype), gradient)
            return (
                of_query,
                of_key,
                put(of_value, now.keys, taken(of_value, now.keys) + more),
            ), None

        start = jnp.zeros(query.shape, jnp.float32), *sums
        (of_query, *sums), _ = lax.scan(turn, start, jnp.arange(count + 1))
        return tuple(sums), of_query.astype(query.dtype)

    zeros = [jnp.zeros((query.shape[1], *each.shape), jnp.float32) for each in (keys, values)]
    sums, of_query = lax.scan(of_pair, tuple(zeros), given)
    of_key, of_value = (
        jnp.moveaxis(jnp.sum(each, 0), 0, 1).reshape(like.shape)
        for each, like in zip(sums, (key, value), strict=True)
    )
    return _joined(of_query), of_key.astype(key.dtype), of_value.astype(key.dtype)


def _pairs(block: int, x: jax.Array) -> tuple[jax.Array, jax.Array]:
    """[pairs, parts, 2, batch, queries of a block, ...] of [batch, parts, queries, ...].

    And the first block of each pair. The barrier keeps JAX from storing the masks of all blocks
    before the loop over ticks, since they are the same in each.
    """
    batch, parts, queries = x.shape[:3]
    first = jnp.asarray(order_of(parts, parts * queries, block)[..., 0])
    x, first = lax.optimization_barrier((x, first))
    pairs = x.reshape(batch, parts, -1, 2, block, *x.shape[3:])
    return jnp.moveaxis(pairs, (2, 1, 3, 0), (0, 1, 2, 3)), first.T


def _joined(pairs: jax.Array) -> jax.Array:
    """What `_pairs` has taken apart."""
    x = jnp.moveaxis(pairs, (0, 1, 2, 3), (2, 1, 3, 0))
    return x.reshape(*x.shape[:2], -1, *x.shape[5:])


def _blocks(block: int, x: jax.Array) -> jax.Array:
    """[blocks, batch, keys of a block, ...] of [batch, length, ...]."""
    return jnp.moveaxis(x.reshape(x.shape[0], -1, block, *x.shape[2:]), 1, 0)


attended_in_blocks.defvjp(_attended, _gradients)


@partial(jax.custom_vjp, nondiff_argnums=(0, 1))
def product(narrow: Any, spec: str, x: jax.Array, w: jax.Array) -> jax.Array:
    """`jnp.einsum` with operands of the type `narrow`, also in the backward pass."""
    x, w = (each.astype(narrow) for each in (x, w))
    return jnp.einsum(spec, x, w, preferred_element_type=jnp.bfloat16)


def _product(narrow: Any, spec: str, x: jax.Array, w: jax.Array) -> Any:
    return product(narrow, spec, x, w), (x.astype(narrow), w)


def _of_product(narrow: Any, spec: str, saved: Any, gradient: jax.Array) -> Any:
    x, w = saved
    a, b, c = spec.replace("->", ",").split(",")
    of_x = product(narrow, f"{c},{b}->{a}", gradient, w)
    return of_x, product(narrow, f"{a},{c}->{b}", x, gradient).astype(w.dtype)


product.defvjp(_product, _of_product)


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def to_experts(narrow: Any, x: jax.Array) -> jax.Array:
    """Send [replicas, experts, slots, hidden] from replicas to experts; gradients back as wide."""
    sent = lax.with_sharding_constraint(x.astype(narrow or x.dtype), P(None, "data", None, None))
    return sent.astype(x.dtype)


to_experts.defvjp(
    lambda narrow, x: (to_experts(narrow, x), None),
    lambda _, __, gradient: (to_replicas(gradient),),
)


def to_replicas(x: jax.Array) -> jax.Array:
    """Send what experts have made back to the replicas of the tokens."""
    x = lax.with_sharding_constraint(x, P(None, "data", None, None))
    return lax.with_sharding_constraint(x, P("data", None, None, None))


def mixture(decoder: Decoder, experts: Experts, y: jax.Array, w: Weights) -> jax.Array:
    """What the chosen experts make of tokens [batch, length, hidden].

    Each replica has so many slots for each expert, and drops the last of what is more. So what is
    sent has a size that is known.
    """
    tokens = y.reshape(decoder.grid[0], -1, decoder.hidden)
    tokens = lax.with_sharding_constraint(tokens, P("data", None, None))
    count = experts.count
    slots = experts.room * tokens.shape[1] * experts.chosen // count
    scores = jax.nn.sigmoid(jnp.einsum("dth,he->dte", tokens, w["router"]).astype(jnp.float32))
    weight, expert = lax.top_k(scores, experts.chosen)
    weight /= jnp.sum(weight, -1, keepdims=True)

    def placed(expert: jax.Array) -> tuple[jax.Array, jax.Array]:
        """The slot of each choice, past the last one where it has none; the token of each slot."""
        is_chosen = jax.nn.one_hot(expert.ravel(), count, dtype=jnp.int32)
        before = jnp.sum((jnp.cumsum(is_chosen, 0) - is_chosen) * is_chosen, -1)
        slot = jnp.where(before < slots, expert.ravel() * slots + before, count * slots)
        token = jnp.arange(slot.size) // experts.chosen
        none = jnp.full(count * slots, len(token), jnp.int32)
        return slot, none.at[slot].set(token, mode="drop")

    slot, token = jax.vmap(placed)(expert)
    take = jax.vmap(partial(jnp.take, axis=0, mode="fill", fill_value=0))
    given = take(tokens, token).reshape(-1, count, slots, decoder.hidden)
    given = lax.with_sharding_constraint(given, P("data", None, None, None))
    given = to_experts(decoder.narrow, given)
    multiply = multiplied(decoder)
    gate = jax.nn.silu(multiply("desh,ehi->desi", given, w["gate_experts"]))
    inner = gate * multiply("desh,ehi->desi", given, w["up_experts"])
    made = to_replicas(multiply("desi,eih->desh", inner, w["down_experts"]))
    chosen = take(made.reshape(len(made), -1, decoder.hidden), slot)
    chosen = chosen.reshape(*expert.shape, -1) * weight[..., None].astype(y.dtype)
    return jnp.sum(chosen, 2).reshape(y.shape)


def multiplied(decoder: Decoder) -> Callable[[str, jax.Array, jax.Array], jax.Array]:
    """The product of the decoder's layers, of an einsum's text."""
    return jnp.einsum if decoder.narrow is None else partial(product, decoder.narrow)


def queries(decoder: Decoder, y: jax.Array, w: Weights) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Queries, keys and values [batch, length, heads, width] of tokens [batch, length, hidden]."""
    multiply, by_head = multiplied(decoder), "bsh,hnd->bsnd"
    if decoder.latent is None:
        query, key, value = (multiply(by_head, y, w[name]) for name in ("query", "key", "value"))
        return query, key, value
    latent = decoder.latent
    narrow = multiply("bsh,hd->bsd", y, w["to_key"])
    own, position = narrow[..., : latent.key], narrow[..., None, latent.key :]
    query = multiply(by_head, multiply("bsh,hd->bsd", y, w["to_query"]), w["query"])
    key, value = (multiply(by_head, own, w[name]) for name in ("key", "value"))
    position = jnp.broadcast_to(position, (*key.shape[:-1], latent.position))
    return query, jnp.concatenate([key, position], -1), value


def layer(decoder: Decoder, x: jax.Array, w: Weights) -> jax.Array:
    """One layer on tokens of [batch, length, hidden]."""
    by_head, by_column = P("data", "context", "tensor", None), P("data", "context", "tensor")
    multiply = multiplied(decoder)

    def kept(name: str, value: jax.Array, spec: P) -> jax.Array:
        named = checkpoint_name(lax.with_sharding_constraint(value, spec), name)
        return lax.with_sharding_constraint(named, spec)  # so it is kept

    def biased(name: str, value: jax.Array) -> jax.Array:
        return value + w[f"{name}_bias"] if f"{name}_bias" in w else value

    x = lax.with_sharding_constraint(x, decoder.between)
    y = normalized(x, w, 1)
    query, key, value = (
        kept(name, biased(name, made), by_head)
        for name, made in zip(("query", "key", "value"), queries(decoder, y, w), strict=True)
    )
    mixed = kept("mixed", attention(decoder, query, key, value), by_head)
    x += biased("out", multiply("bsnd,ndh->bsh", mixed, w["out"]))
    x = kept("middle", x, decoder.between)
    y = normalized(x, w, 2)
    inner = kept("up", biased("up", multiply("bsh,hi->bsi", y, w["up"])), by_column)
    if decoder.is_gpt:
        inner = jax.nn.gelu(inner)
    else:
        inner *= jax.nn.silu(kept("gate", multiply("bsh,hi->bsi", y, w["gate"]), by_column))
    inner = lax.with_sharding_constraint(inner, by_column)
    x += biased("down", multiply("bsi,ih->bsh", inner, w["down"]))
    if decoder.experts:
        x += mixture(decoder, decoder.experts, y, w)
    return lax.with_sharding_constraint(x, decoder.between)


def layer_in_halves(decoder: Decoder, x: jax.Array, w: Weights) -> jax.Array:
    """One layer on tokens of [batch, length, hidden], a part of each replica's after another."""
    if decoder.halves == 1:
        return layer(decoder, x, w)
    parts = x.reshape(decoder.grid[0], decoder.halves, -1, *x.shape[1:])
    made = [
        layer(decoder, parts[:, number].reshape(-1, *x.shape[1:]), w)
        for number in range(decoder.halves)
    ]
    joined = [each.reshape(decoder.grid[0], -1, *x.shape[1:]) for each in made]
    return lax.with_sharding_constraint(jnp.stack(joined, 1).reshape(x.shape), decoder.between)


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
        made = layer_in_halves(decoder, x, mine)
        return jnp.where(first + number < decoder.layers, made, x)

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
    one = partial(layer_in_halves, decoder)
    if decoder.keeps is not None:
        policy = jax.checkpoint_policies.save_only_these_names(*decoder.keeps)
        one = jax.checkpoint(one, policy=policy)
    step = jax.vmap(one, (0, None))
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


SMALL = Decoder(7, 16, 4, 2, 32, 64, 8, 4, (2, 2, 1, 2), sequences=2, block=2)
SMALL_MIXTURE = replace(
    SMALL, experts=Experts(8, 2, 16, room=4), latent=Latent(8, 8, 2, 4), groups=4, halves=2
)
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
    block=512,
)

LLAMA_8B = Decoder(
    32,
    4096,
    32,
    8,
    14336,
    128256,
    8192,
    1,
    (128, 1, 1, 1),  # replicas that share the state (FSDP)
    jnp.bfloat16,
    sequences=2,
    gathers_layers=True,
    keeps=PRODUCTS,
    block=512,
)


def in_one_batch(decoder: Decoder) -> Decoder:
    """The step on one device, without stages and microbatches."""
    sequences = decoder.microbatches * decoder.grid[0] * decoder.sequences
    return replace(decoder, grid=(1, 1, 1, 1), microbatches=1, sequences=sequences, chunk=1)


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
    state = (weights, zeros, zeros)
    arguments = (state, in_parts(decoder, tokens), in_parts(decoder, targets))
    print(sd.communication(pipelined.lower(*arguments)))
    plain = replace(decoder, block=None)
    with jax.set_mesh(jax.make_mesh((1, 1, 1, 1), AXES, axis_types=(AxisType.Auto,) * 4)):
        expected = jax.jit(partial(step, plain, layers_in_a_row))(state, tokens, targets)
    jax.tree.map(
        partial(np.testing.assert_allclose, rtol=1e-3, atol=1e-4), pipelined(*arguments), expected
    )
    print("equal to the step without stages")


def write(decoder: Decoder, path: Path, layers: Layers = layers_in_stages) -> None:
    """Write the step of a decoder that no computer at hand could run."""
    mesh = AbstractMesh(decoder.grid, AXES, axis_types=(AxisType.Auto,) * 4)

    def described(shape: tuple[int, ...], dtype: Any, spec: P) -> jax.ShapeDtypeStruct:
        return jax.ShapeDtypeStruct(shape, dtype, sharding=NamedSharding(mesh, spec))

    weights = {
        k: described(shape, jnp.float32, spec) for k, (shape, spec) in decoder.weights().items()
    }
    tokens = described(batch_of(decoder), jnp.int32, P(None, "data", "context"))
    with jax.sharding.use_abstract_mesh(mesh):
        traced = jax.jit(partial(step, decoder, layers), donate_argnums=0).trace(
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
    parser.add_argument("--experts", action="store_true", help="the small one, with experts")
    parser.add_argument("--at-once", action="store_true", help="attend from all queries at once")
    parser.add_argument("--llama-8b", action="store_true", help="with --write: 8B, on 128 replicas")
    parser.add_argument("--plain", action="store_true", help="with --write: on one device")
    parser.add_argument("--replicas", type=int, help="the size of the data axis")
    given = parser.parse_args()
    decoder = LLAMA_405B if given.write and not given.small else SMALL
    decoder = LLAMA_8B if given.llama_8b else decoder
    decoder = SMALL_MIXTURE if given.experts else decoder
    decoder = replace(decoder, grid=(1, 2, 2, 2)) if given.context else decoder
    decoder = replace(decoder, block=None) if given.at_once else decoder
    if given.replicas:
        decoder = replace(decoder, grid=(given.replicas, *decoder.grid[1:]))
    if given.plain:
        write(in_one_batch(decoder), given.write, layers_in_a_row)
    else:
        write(decoder, given.write) if given.write else compare(decoder)
