"""JAX programs of many kinds, each with arguments and how they are sharded on a mesh of 4 by 2."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import PartitionSpec as P


@dataclass(frozen=True)
class JaxProgram:
    function: Callable[..., Any]
    arguments: Sequence[Any]
    shardings: Sequence[Any]
    options: dict[str, Any] = field(default_factory=dict)


PROGRAMS: dict[str, Callable[[Any], JaxProgram]] = {}
"""By name, what gives the program for a mesh."""


def program(make: Callable[[Any], JaxProgram]) -> Callable[[Any], JaxProgram]:
    PROGRAMS[make.__name__] = make
    return make


def draw(*shape: int, seed: int = 0, dtype: Any = np.float32) -> Any:
    return np.random.default_rng([seed, *shape]).standard_normal(shape).astype(dtype)


def whole(*shape: int, most: int) -> Any:
    return np.random.default_rng([most, *shape]).integers(0, most, shape).astype(np.int32)


def layer_norm(x: Any, scale: Any) -> Any:
    centered = x - x.mean(-1, keepdims=True)
    return centered * lax.rsqrt((centered**2).mean(-1, keepdims=True) + 1e-5) * scale


@program
def mlp(mesh: Any) -> JaxProgram:
    def f(x: Any, w1: Any, w2: Any) -> Any:
        return jax.nn.gelu(x @ w1, approximate=False) @ w2

    arguments = draw(16, 32), draw(32, 64), draw(64, 32)
    return JaxProgram(f, arguments, (P("a"), P(None, "b"), P("b")))


@program
def attention_with_rope_and_gqa(mesh: Any) -> JaxProgram:
    def rope(x: Any) -> Any:
        half = x.shape[-1] // 2
        angles = jnp.arange(x.shape[1])[:, None] / 10 ** (jnp.arange(half) / half)
        cos, sin = jnp.cos(angles)[None, :, None], jnp.sin(angles)[None, :, None]
        a, b = x[..., :half], x[..., half:]
        return jnp.concatenate([a * cos - b * sin, b * cos + a * sin], -1)

    def f(x: Any, wq: Any, wk: Any, wv: Any, wo: Any) -> Any:
        n, s, _ = x.shape
        q = rope((x @ wq).reshape(n, s, 8, 8))
        k, v = rope((x @ wk).reshape(n, s, 4, 8)), (x @ wv).reshape(n, s, 4, 8)
        k, v = (jnp.repeat(each, 2, axis=2) for each in (k, v))
        scores = jnp.einsum("nqhd,nkhd->nhqk", q, k) / 8**0.5
        scores = jnp.where(jnp.tril(jnp.ones((s, s), bool)), scores, -1e9)
        mixed = jnp.einsum("nhqk,nkhd->nqhd", jax.nn.softmax(scores), v)
        return mixed.reshape(n, s, 64) @ wo

    arguments = draw(4, 16, 32), draw(32, 64), draw(32, 32), draw(32, 32, seed=1), draw(64, 32)
    columns = P(None, "b")
    return JaxProgram(f, arguments, (P("a"), columns, columns, columns, P("b")))


@program
def mixture_of_experts(mesh: Any) -> JaxProgram:
    def f(x: Any, gate: Any, w1: Any, w2: Any) -> Any:
        weights, chosen = lax.top_k(jax.nn.softmax(x @ gate), 2)
        dispatch = (jax.nn.one_hot(chosen, 8) * weights[..., None]).sum(1)
        hidden = jax.nn.relu(jnp.einsum("te,td,edf->etf", dispatch > 0, x, w1))
        return jnp.einsum("te,etf,efd->td", dispatch, hidden, w2)

    arguments = draw(16, 8), draw(8, 8), draw(8, 8, 16), draw(8, 16, 8)
    return JaxProgram(f, arguments, (P("a"), None, P("b"), P("b")))


@program
def convolutions_split_in_space(mesh: Any) -> JaxProgram:
    def f(x: Any, w1: Any, w2: Any) -> Any:
        conv = partial(
            lax.conv_general_dilated, padding="SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
        )
        return conv(jax.nn.relu(conv(x, w1, (1, 1))), w2, (2, 2))

    arguments = draw(2, 16, 16, 4), draw(3, 3, 4, 8), draw(3, 3, 8, 8)
    return JaxProgram(f, arguments, (P(None, "a"), None, P(None, None, None, "b")))


@program
def pooling_and_batch_norm(mesh: Any) -> JaxProgram:
    def f(x: Any) -> Any:
        x = (x - x.mean((0, 1, 2))) / jnp.sqrt(x.var((0, 1, 2)) + 1e-5)
        return lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")

    return JaxProgram(f, (draw(8, 8, 8, 4),), (P("a", "b"),))


@program
def scan_over_layers(mesh: Any) -> JaxProgram:
    def f(x: Any, layers: Any) -> Any:
        def layer(x: Any, w: Any) -> Any:
            y = jnp.tanh(layer_norm(x, w["scale"]) @ w["in"]) @ w["out"]
            return x + y, y.mean()

        return lax.scan(layer, x, layers)

    layers = {"in": draw(3, 16, 32), "out": draw(3, 32, 16), "scale": draw(3, 16)}
    specs = {"in": P(None, None, "b"), "out": P(None, "b"), "scale": P()}
    return JaxProgram(f, (draw(8, 16), layers), (P("a"), specs))


def loss(w: Any, x: Any, y: Any) -> Any:
    hidden = jax.nn.silu(x @ w["in"] + w["bias"])
    return ((hidden @ w["out"] - y) ** 2).mean()


WEIGHTS = {"in": draw(16, 32), "bias": draw(32), "out": draw(32, 8)}
SPECS = {"in": P(None, "b"), "bias": P("b"), "out": P("b")}


@program
def gradient_step(mesh: Any) -> JaxProgram:
    def f(w: Any, x: Any, y: Any) -> Any:
        value, slopes = jax.value_and_grad(loss)(w, x, y)
        return value, jax.tree.map(lambda a, b: a - 0.1 * b, w, slopes)

    return JaxProgram(f, (WEIGHTS, draw(8, 16), draw(8, 8)), (SPECS, P("a"), P("a")))


@program
def adam_step(mesh: Any) -> JaxProgram:
    def f(state: Any, x: Any, y: Any) -> Any:
        w, first, second, count = state
        slopes = jax.grad(loss)(w, x, y)
        first = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, first, slopes)
        second = jax.tree.map(lambda v, g: 0.99 * v + 0.01 * g * g, second, slopes)
        count = count + 1
        w = jax.tree.map(
            lambda a, m, v: a - 0.01 * m / (1 - 0.9**count) / (jnp.sqrt(v / (1 - 0.99**count)) + 1),
            w,
            first,
            second,
        )
        return w, first, second, count

    zeros = jax.tree.map(np.zeros_like, WEIGHTS)
    state = (WEIGHTS, zeros, zeros, np.float32(0))
    arguments = state, draw(8, 16), draw(8, 8)
    return JaxProgram(f, arguments, ((SPECS, SPECS, SPECS, P()), P("a"), P("a")))


@program
def decoding_with_a_cache(mesh: Any) -> JaxProgram:
    def f(cache: Any, x: Any, wk: Any, position: Any) -> Any:
        cache = lax.dynamic_update_slice(cache, (x @ wk)[:, None], (0, position, 0))
        scores = jnp.einsum("nd,nsd->ns", x, cache)
        seen = jnp.arange(cache.shape[1]) <= position
        return cache, jnp.einsum("ns,nsd->nd", jax.nn.softmax(jnp.where(seen, scores, -1e9)), cache)

    arguments = draw(8, 16, 16), draw(8, 16), draw(16, 16), np.int32(5)
    return JaxProgram(f, arguments, (P("a"), P("a"), P(None, "b"), P()))


@program
def ring_attention_by_hand(mesh: Any) -> JaxProgram:
    ring = [(i, (i + 1) % 4) for i in range(4)]

    def local(q: Any, k: Any, v: Any) -> Any:
        def turn(_: Any, carried: Any) -> Any:
            k, v, total, weight = carried
            e = jnp.exp(q @ k.T / 4)
            k, v = (lax.ppermute(each, "a", ring) for each in (k, v))
            return k, v, total + e @ v, weight + e.sum(-1, keepdims=True)

        zero = lax.pcast(jnp.zeros((q.shape[0], 1)), ("a",), to="varying")
        start = k, v, jnp.zeros_like(q), zero
        *_, total, weight = lax.fori_loop(0, 4, turn, start)
        return total / weight

    f = jax.shard_map(local, mesh=mesh, in_specs=P("a"), out_specs=P("a"), axis_names={"a", "b"})
    return JaxProgram(f, (draw(32, 8), draw(32, 8, seed=1), draw(32, 8, seed=2)), (P("a"),) * 3)


@program
def partly_manual(mesh: Any) -> JaxProgram:
    def local(x: Any, w: Any) -> Any:
        return lax.psum(jnp.tanh(x) @ w, "a")

    f = jax.shard_map(
        local, mesh=mesh, in_specs=(P(None, "a"), P("a")), out_specs=P(), axis_names={"a"}
    )
    return JaxProgram(f, (draw(8, 16), draw(16, 8)), (P("b", "a"), P("a")))


@program
def fourier_transform(mesh: Any) -> JaxProgram:
    def f(x: Any) -> Any:
        return jnp.fft.irfft(jnp.fft.rfft(x) * jnp.exp(-jnp.arange(9.0)))

    return JaxProgram(f, (draw(8, 16),), (P("a", "b"),))


@program
def sorting(mesh: Any) -> JaxProgram:
    def f(x: Any) -> Any:
        return jnp.sort(x, axis=0), jnp.argsort(x, axis=1), lax.top_k(x, 3)

    return JaxProgram(f, (draw(16, 8),), (P("a", "b"),))


@program
def random_numbers(mesh: Any) -> JaxProgram:
    def f(key: Any, x: Any) -> Any:
        first, second = jax.random.split(key)
        kept = jax.random.bernoulli(first, 0.5, x.shape)
        return jnp.where(kept, x, 0) + jax.random.normal(second, x.shape), first

    return JaxProgram(f, (jax.random.key(3), draw(8, 16)), (None, P("a", "b")))


@program
def loop_until(mesh: Any) -> JaxProgram:
    def f(x: Any, m: Any) -> Any:
        def step(carried: Any) -> Any:
            count, x = carried
            y = m @ x
            return count + 1, y / jnp.linalg.norm(y)

        return lax.while_loop(lambda c: c[0] < 5, step, (0, x))

    return JaxProgram(f, (draw(16), draw(16, 16)), (P("a"), P("a", "b")))


@program
def branches(mesh: Any) -> JaxProgram:
    def f(x: Any, which: Any) -> Any:
        y = lax.cond(x.sum() > 0, lambda x: x * 2, lambda x: x - 1, x)
        return lax.switch(which, [jnp.sin, jnp.cos, lambda x: x.T.reshape(x.shape)], y)

    return JaxProgram(f, (draw(8, 16), np.int32(2)), (P("a", "b"), P()))


@program
def custom_derivatives(mesh: Any) -> JaxProgram:
    @jax.custom_vjp
    def clip(x: Any) -> Any:
        return jnp.clip(x, -1, 1)

    clip.defvjp(lambda x: (clip(x), None), lambda _, g: (g,))

    @jax.custom_jvp
    def soft(x: Any) -> Any:
        return jnp.log1p(jnp.exp(x))

    soft.defjvp(lambda x, t: (soft(x[0]), t[0] * jax.nn.sigmoid(x[0])))

    def f(x: Any, w: Any) -> Any:
        return jax.grad(lambda w: (clip(x @ w) * soft(x @ w)).sum())(w)

    return JaxProgram(f, (draw(8, 16), draw(16, 16)), (P("a"), P(None, "b")))


@program
def embedding_and_cross_entropy(mesh: Any) -> JaxProgram:
    def f(table: Any, tokens: Any) -> Any:
        logits = table[tokens] @ table.T
        picked = jnp.take_along_axis(jax.nn.log_softmax(logits), tokens[..., None], -1)
        return -picked.mean()

    return JaxProgram(f, (draw(64, 16), whole(8, 12, most=64)), (P("b"), P("a")))


@program
def gradient_of_an_embedding(mesh: Any) -> JaxProgram:
    def f(table: Any, tokens: Any) -> Any:
        return jax.grad(lambda table: (table[tokens] ** 2).sum())(table)

    return JaxProgram(f, (draw(64, 16), whole(8, 12, most=64)), (P("b"), P("a")))


@program
def cumulative_sums(mesh: Any) -> JaxProgram:
    def f(x: Any) -> Any:
        return jnp.cumsum(x, 0), lax.associative_scan(jnp.maximum, x, axis=1), jnp.cumprod(x, 1)

    return JaxProgram(f, (draw(16, 8),), (P("a", "b"),))


@program
def scattered_updates(mesh: Any) -> JaxProgram:
    def f(x: Any, at: Any, y: Any) -> Any:
        return x.at[at].add(y), x.at[at, 0].max(y[:, 0])

    return JaxProgram(f, (draw(16, 8), whole(6, most=16), draw(6, 8)), (P("a", "b"), None, None))


@program
def mapped_and_nested(mesh: Any) -> JaxProgram:
    @jax.jit
    def one(x: Any, w: Any) -> Any:
        return jnp.dot(x, w) / jnp.linalg.norm(x)

    def f(x: Any, w: Any) -> Any:
        return jax.vmap(jax.vmap(one, (None, 1)), (0, None))(x, w)

    return JaxProgram(f, (draw(8, 16), draw(16, 6)), (P("a"), None))


@program
def constraints_inside(mesh: Any) -> JaxProgram:
    def f(x: Any, w: Any) -> Any:
        y = lax.with_sharding_constraint(x @ w, jax.sharding.NamedSharding(mesh, P("b", "a")))
        return jnp.exp(-(y**2)).T

    return JaxProgram(f, (draw(8, 16), draw(16, 8)), (P("a"), None), {"out_shardings": P("b", "a")})


@program
def narrow_floats(mesh: Any) -> JaxProgram:
    def f(x: Any, w: Any) -> Any:
        return jax.nn.softmax((x @ w).astype(jnp.float32)).astype(jnp.bfloat16)

    bf16 = jnp.bfloat16
    return JaxProgram(f, (draw(8, 16, dtype=bf16), draw(16, 8, dtype=bf16)), (P("a"), P(None, "b")))


@program
def complex_numbers(mesh: Any) -> JaxProgram:
    def f(x: Any, w: Any) -> Any:
        z = x + 1j * jnp.roll(x, 1, 0)
        return jnp.abs(z @ w), z.conj().T

    return JaxProgram(f, (draw(8, 16), draw(16, 8)), (P("a"), P("a", "b")))


@program
def integers_and_bits(mesh: Any) -> JaxProgram:
    def f(x: Any, y: Any) -> Any:
        counts = jnp.bincount(x.ravel() % 8, length=8)
        return counts, (x << 2) ^ y, x // (y + 1), (x.astype(jnp.uint8) & 7).sum(dtype=jnp.uint32)

    return JaxProgram(f, (whole(8, 16, most=99), whole(8, 16, most=7)), (P("a", "b"), P("b")))


@program
def recomputed_activations(mesh: Any) -> JaxProgram:
    def f(w: Any, x: Any) -> Any:
        block = jax.checkpoint(lambda x: jnp.tanh(x @ w))
        return jax.grad(lambda x: block(block(x)).sum())(x)

    return JaxProgram(f, (draw(16, 16), draw(8, 16)), (P(None, "b"), P("a")))


@program
def cholesky_factor(mesh: Any) -> JaxProgram:
    def f(x: Any) -> Any:
        return jnp.linalg.cholesky(jnp.einsum("nij,nkj->nik", x, x) + 4 * jnp.eye(4))

    return JaxProgram(f, (draw(8, 4, 4),), (P("a"),))


@program
def solved_systems(mesh: Any) -> JaxProgram:
    def f(a: Any, b: Any) -> Any:
        a = a + 8 * jnp.eye(6)
        return jnp.linalg.solve(a, b), jnp.abs(jnp.linalg.qr(a)[1])

    return JaxProgram(f, (draw(8, 6, 6), draw(8, 6, 2)), (P("a"), P("a")))


@program
def dimensions_that_do_not_divide(mesh: Any) -> JaxProgram:
    def f(x: Any, w: Any) -> Any:
        y = jnp.concatenate([x @ w, x[:, :3]], 1)
        return jnp.pad(y, ((1, 0), (0, 0))), y[1:].max(0)

    return JaxProgram(f, (draw(8, 16), draw(16, 7)), (P("a", "b"), P("b")))


@program
def stencil(mesh: Any) -> JaxProgram:
    def f(x: Any) -> Any:
        def step(_: Any, x: Any) -> Any:
            near = [jnp.roll(x, by, axis) for by in (1, -1) for axis in (0, 1)]
            return 0.5 * x + 0.125 * sum(near)

        return lax.fori_loop(0, 3, step, x)

    return JaxProgram(f, (draw(16, 16),), (P("a", "b"),))


@program
def reversed_and_gathered(mesh: Any) -> JaxProgram:
    def f(x: Any, at: Any) -> Any:
        return x[::-1], x[at], jnp.take(x, at, axis=1, mode="clip"), lax.rev(x, (1,))[:, ::3]

    return JaxProgram(f, (draw(16, 12), whole(5, most=12)), (P("a", "b"), None))


@program
def static_and_keyword_arguments(mesh: Any) -> JaxProgram:
    def f(x: Any, power: int) -> Any:
        return sum(x**each for each in range(power))

    return JaxProgram(f, (draw(8, 16), 4), (P("a", "b"),), {"static_argnums": 1})
