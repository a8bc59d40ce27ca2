"""Functions that are parallel by hand, against the plain ones."""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as P

import shard_dialect as sd

X, W1, W2 = (jax.ShapeDtypeStruct(shape, jnp.float32) for shape in ((8, 16), (16, 32), (32, 16)))


def mesh(*sizes: int) -> Mesh:
    names = ("data", "model")[-len(sizes) :]
    return Mesh(np.array(jax.devices()[: int(np.prod(sizes))]).reshape(sizes), names)


def layer(x: Any, w1: Any, w2: Any) -> Any:
    return jax.nn.gelu(x @ w1) @ w2


def megatron(summed: Callable[[Any], Any]) -> Callable[..., Any]:
    specs = (P("data", None), P(None, "model"), P("model", None))
    return jax.shard_map(
        lambda x, w1, w2: summed(layer(x, w1, w2)),
        mesh=mesh(2, 2),
        in_specs=specs,
        out_specs=P("data", None),
        check_vma=False,
    )


def test_tensor_parallel_is_proven() -> None:
    found = sd.jax.prove(layer, megatron(lambda y: jax.lax.psum(y, "model")), X, W1, W2)
    assert found.answer == "proven", found


@pytest.mark.parametrize(
    "wrong",
    [
        lambda y: y,
        lambda y: jax.lax.psum(y, "data"),
        lambda y: jax.lax.pmean(y, "model"),
        lambda y: jax.lax.psum(jax.lax.psum(y, "model"), "model"),
    ],
)
def test_wrong_sums_are_refuted(wrong: Callable[[Any], Any]) -> None:
    found = sd.jax.prove(layer, megatron(wrong), X, W1, W2)
    assert found.answer == "refuted", found
    assert "a run on random inputs confirms it" in found.reason


def test_gathered_weights_are_proven_with_gradients() -> None:
    """Weights are split, gathered in the layer; gradients are scattered by JAX's own rules."""

    def gathered(x: Any, w1: Any, w2: Any) -> Any:
        whole = partial(jax.lax.all_gather, axis_name="model", axis=0, tiled=True)
        y = jnp.sum(layer(x, whole(w1), whole(w2)) ** 2)
        return jax.lax.psum(y, "model")

    rows = P("model", None)
    parallel = jax.shard_map(gathered, mesh=mesh(4), in_specs=(rows,) * 3, out_specs=P())

    def plain(x: Any, w1: Any, w2: Any) -> Any:
        return jnp.sum(layer(x, w1, w2) ** 2)

    both = [jax.value_and_grad(each, argnums=(0, 1, 2)) for each in (plain, parallel)]
    found = sd.jax.prove(*both, X, W1, W2)
    assert found.answer == "proven", found


def test_a_ring_is_proven_and_one_that_turns_too_little_is_refuted() -> None:
    """A product whose left side goes around: each device sees each block of it."""

    def ring(turns: int) -> Callable[..., Any]:
        def local(x: Any, w: Any) -> Any:
            total = jnp.zeros((x.shape[0], w.shape[1]))
            here = jax.lax.axis_index("model")
            for turn in range(turns):
                block = jax.lax.dynamic_slice_in_dim(x, (here + turn) % 4 * 4, 4, 1)
                total = total + block @ w
                w = jax.lax.ppermute(w, "model", [(n, (n - 1) % 4) for n in range(4)])
            return total

        return jax.shard_map(
            local, mesh=mesh(4), in_specs=(P("model", None), P("model", None)),
            out_specs=P("model", None), check_vma=False,
        )  # fmt: skip

    assert sd.jax.prove(jnp.matmul, ring(4), X, W1).answer == "proven"
    assert sd.jax.prove(jnp.matmul, ring(3), X, W1).answer == "refuted"


def test_trees_and_integers() -> None:
    def plain(tree: Any, ids: Any) -> Any:
        return tree["embedding"][ids] @ tree["out"]

    def local(tree: Any, ids: Any) -> Any:
        rows = tree["embedding"].shape[0]
        at = ids - jax.lax.axis_index("model") * rows
        inside = (at >= 0) & (at < rows)
        found = tree["embedding"][jnp.clip(at, 0, rows - 1)]
        return jax.lax.psum(jnp.where(inside[:, None], found, 0), "model") @ tree["out"]

    specs = ({"embedding": P("model", None), "out": P()}, P())
    parallel = jax.shard_map(local, mesh=mesh(4), in_specs=specs, out_specs=P())
    shapes = {
        "embedding": jax.ShapeDtypeStruct((32, 8), jnp.float32),
        "out": jax.ShapeDtypeStruct((8, 4), jnp.float32),
    }
    found = sd.jax.prove(plain, parallel, shapes, jax.ShapeDtypeStruct((6,), jnp.int32))
    assert found.answer == "proven", found
    assert found.assumptions == ("integer arguments as drawn",)


def attention(q: Any, k: Any, v: Any) -> Any:
    return jax.nn.softmax(q @ k.T, axis=-1) @ v


def ring_attention(rescaled: bool) -> Callable[..., Any]:
    """Keys and values go around; each device sums up its rows of the softmax block by block."""

    def local(q: Any, k: Any, v: Any) -> Any:
        low = jnp.full(q.shape[:1], -jnp.inf)
        most, weight, total = low, jnp.zeros(q.shape[:1]), jnp.zeros((q.shape[0], v.shape[1]))
        for _ in range(4):
            scores = q @ k.T
            higher = jnp.maximum(most, scores.max(axis=-1))
            shares = jnp.exp(scores - higher[:, None])
            again = jnp.exp(most - higher) if rescaled else jnp.ones_like(most)
            weight = weight * again + shares.sum(axis=-1)
            total = total * again[:, None] + shares @ v
            most = higher
            turn = [(n, (n + 1) % 4) for n in range(4)]
            k, v = (jax.lax.ppermute(each, "model", turn) for each in (k, v))
        return total / weight[:, None]

    rows = P("model", None)
    return jax.shard_map(local, mesh=mesh(4), in_specs=(rows,) * 3, out_specs=rows, check_vma=False)


def test_ring_attention_is_proven_and_without_rescaling_refuted() -> None:
    shapes = [jax.ShapeDtypeStruct((8, 16), jnp.float32)] * 3
    found = sd.jax.prove(attention, ring_attention(rescaled=True), *shapes)
    assert found.answer == "proven", found
    assert found.assumptions == ("exp(a - b) = exp(a) / exp(b)",)
    assert sd.jax.prove(attention, ring_attention(rescaled=False), *shapes).answer == "refuted"


@pytest.mark.parametrize(
    "function",
    [
        lambda x: jnp.linalg.cholesky(x @ x.swapaxes(-1, -2)),
        jnp.linalg.svd,
        jnp.linalg.eigh,
        jnp.linalg.qr,
        lambda x: jnp.linalg.solve(x, x[..., 0:2]),
        lambda x: jnp.fft.rfft(x, axis=1).real,
        lambda x: jax.lax.top_k(x, 3),
        lambda x: jnp.sort(x, axis=0),
        lambda x: jnp.cumsum(x, axis=0),
        lambda x: jax.random.bernoulli(jax.random.key(0), 0.5, x.shape) * x,
    ],
)
def test_partitioned_functions_are_proven(function: Callable[[Any], Any]) -> None:
    x = jax.ShapeDtypeStruct((16, 8, 8), jnp.float32)
    modules = [
        sd.jax.lower(function, x, mesh=mesh(4), in_shardings=(P("model"),)) for _ in range(2)
    ]
    sd.run_pipeline(modules[1], "spmd")
    assert sd.prove(*modules).answer == "proven"
