"""Programs in JAX whose best plan takes more than one op to see, as files.

    python -m benchmarks.split_dimensions FOLDER
    python -m benchmarks.communication --programs FOLDER

In some a reshape merges dimensions of which the minor one is split. In others attention is computed
along a split sequence, where heads can be exchanged for it; or two steps of a stencil along a split
dimension, with several kinds of edges. docs/communication.md has the table.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

import jax
import jax.numpy as jnp
from jax.sharding import AbstractMesh, NamedSharding
from jax.sharding import PartitionSpec as P

Function = Callable[..., jax.Array | tuple[jax.Array, ...]]
Shape = tuple[int, ...]
MESH = AbstractMesh((4,), ("x",))
SECOND, LAST = P(None, "x"), P(None, None, "x")


def lowered(function: Function, result: P, *arguments: tuple[Shape, P]) -> str:
    """The text of a function of f32 tensors, its arguments and results split like this."""
    given = [
        jax.ShapeDtypeStruct(shape, jnp.float32, sharding=NamedSharding(MESH, spec))
        for shape, spec in arguments
    ]
    results = jax.tree.map(lambda _: NamedSharding(MESH, result), jax.eval_shape(function, *given))
    traced = jax.jit(function, out_shardings=results).trace(*given)
    return str(traced.lower(lowering_platforms=("cpu",)).as_text())


def merged_rows_times_weights(x: jax.Array, w: jax.Array) -> jax.Array:
    return (x.reshape(-1, x.shape[2]) @ w).reshape(*x.shape[:2], -1)


def merged_columns_times_weights(x: jax.Array, w: jax.Array) -> jax.Array:
    return x.reshape(x.shape[0], -1) @ w


def softmax_of_merged_rows(x: jax.Array) -> jax.Array:
    return jax.nn.softmax(x.reshape(-1, x.shape[2]), -1).reshape(x.shape)


def softmax_along_merged_columns(x: jax.Array) -> jax.Array:
    return jax.nn.softmax(x.reshape(x.shape[0], -1), -1).reshape(x.shape)


def attention(q: jax.Array, k: jax.Array, v: jax.Array) -> jax.Array:
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / q.shape[-1] ** 0.5
    return jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores, -1), v)


def causal_attention(q: jax.Array, k: jax.Array, v: jax.Array) -> jax.Array:
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / q.shape[-1] ** 0.5
    mask = jnp.tril(jnp.ones(scores.shape[-2:], bool))
    weights = jax.nn.softmax(jnp.where(mask, scores, -1e9), -1)
    return jnp.einsum("bhqk,bkhd->bqhd", weights, v)


def grouped_attention(q: jax.Array, k: jax.Array, v: jax.Array) -> jax.Array:
    grouped = q.reshape(*q.shape[:2], k.shape[2], -1, q.shape[3])
    scores = jnp.einsum("bqgrd,bkgd->bgrqk", grouped, k) / q.shape[-1] ** 0.5
    return jnp.einsum("bgrqk,bkgd->bqgrd", jax.nn.softmax(scores, -1), v).reshape(q.shape)


def attention_gradients(q: jax.Array, k: jax.Array, v: jax.Array) -> tuple[jax.Array, ...]:
    def loss(q: jax.Array, k: jax.Array, v: jax.Array) -> jax.Array:
        return jnp.sum(jnp.square(causal_attention(q, k, v)))

    return jax.grad(loss, argnums=(0, 1, 2))(q, k, v)


def neighbours(x: jax.Array) -> jax.Array:
    """The mean of each inner element and its four neighbours."""
    sides = x[2:, 1:-1] + x[:-2, 1:-1] + x[1:-1, 2:] + x[1:-1, :-2]
    return 0.2 * (x[1:-1, 1:-1] + sides)


def twice(step: Function) -> Function:
    return lambda x: step(step(x))


def with_kept_edges(x: jax.Array) -> jax.Array:
    return x.at[1:-1, 1:-1].set(neighbours(x))


def with_joined_edges(x: jax.Array) -> jax.Array:
    inner = jnp.concatenate([x[:1, 1:-1], neighbours(x), x[-1:, 1:-1]], 0)
    return jnp.concatenate([x[:, :1], inner, x[:, -1:]], 1)


def with_repeated_edges(x: jax.Array) -> jax.Array:
    return neighbours(jnp.pad(x, 1, mode="edge"))


def around(x: jax.Array) -> jax.Array:
    sides = jnp.roll(x, 1, 0) + jnp.roll(x, -1, 0) + jnp.roll(x, 1, 1) + jnp.roll(x, -1, 1)
    return 0.2 * (x + sides)


def differences(x: jax.Array) -> jax.Array:
    return jnp.gradient(x, axis=0)


_FIRST, _SQUARE = P("x"), (((64, 64), P("x")),)
_HEADS, _SHARED_HEADS = ((2, 64, 8, 16), SECOND), ((2, 64, 4, 16), SECOND)
PROGRAMS: dict[str, tuple[Function, P, tuple[tuple[Shape, P], ...]]] = {
    "merged_rows_product": (
        merged_rows_times_weights,
        SECOND,
        (((6, 64, 128), SECOND), ((128, 64), SECOND)),
    ),
    "merged_columns_product": (
        merged_columns_times_weights,
        SECOND,
        (((64, 6, 32), LAST), ((192, 64), SECOND)),
    ),
    "merged_rows_softmax": (softmax_of_merged_rows, SECOND, (((6, 64, 128), SECOND),)),
    "merged_columns_softmax": (softmax_along_merged_columns, LAST, (((64, 6, 32), LAST),)),
    "attention": (attention, SECOND, (_HEADS,) * 3),
    "causal_attention": (causal_attention, SECOND, (_HEADS,) * 3),
    "grouped_attention": (grouped_attention, SECOND, (_HEADS, _SHARED_HEADS, _SHARED_HEADS)),
    "attention_gradients": (attention_gradients, SECOND, (_HEADS,) * 3),
    "stencil_kept_edges": (twice(with_kept_edges), _FIRST, _SQUARE),
    "stencil_joined_edges": (twice(with_joined_edges), _FIRST, _SQUARE),
    "stencil_repeated_edges": (twice(with_repeated_edges), _FIRST, _SQUARE),
    "stencil_around": (twice(around), _FIRST, _SQUARE),
    "differences": (differences, _FIRST, _SQUARE),
}
"""Each function with the split of its results, and its arguments' shapes and splits."""


def text_of(name: str) -> str:
    """The text of one of the programs."""
    function, result, arguments = PROGRAMS[name]
    return lowered(function, result, *arguments)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="where to write the modules")
    folder = parser.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)
    for name in PROGRAMS:
        (folder / f"{name}.mlir").write_text(text_of(name))


if __name__ == "__main__":
    main()
