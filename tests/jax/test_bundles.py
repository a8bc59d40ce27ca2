"""Small collectives of one kind, written by hand and drawn, become one and compute the same."""

from random import Random
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.sharding import PartitionSpec as P

import shard_dialect as sd

MESH = jax.make_mesh((2, 4), ("a", "b"), axis_types=(jax.sharding.AxisType.Auto,) * 2)
BUNDLED = "spmd,bundle-collectives{gathers=true}"
KINDS = {
    "all_gather": lambda x, dim, axes: lax.all_gather(x, axes, axis=dim, tiled=True),
    "reduce_scatter": lambda x, dim, axes: lax.psum_scatter(
        x, axes, scatter_dimension=dim, tiled=True
    ),
    "collective_permute": lambda x, dim, axes: lax.ppermute(
        x, axes, [(i, (i + dim + 1) % (2 if axes == "a" else 4)) for i in range(2)]
    ),
    "all_reduce": lambda x, dim, axes: lax.psum(x, axes),
    "all_to_all": lambda x, dim, axes: lax.all_to_all(x, axes, dim, (dim + 1) % x.ndim, tiled=True),
}


def drawn(kind: str, draw: Random) -> tuple[Any, list[np.ndarray]]:
    """A function of shards that calls three to six collectives of a kind along one axis.

    Some results are used before the next collective is called.
    """
    axes, count = draw.choice(["a", "b"]), draw.randint(3, 6)
    shift = draw.randrange(3)
    least = 2 if kind == "all_to_all" else 1
    shapes = [[draw.choice((4, 8)) for _ in range(draw.randint(least, 3))] for _ in range(count)]
    at_once = [draw.random() < 0.5 for _ in range(count)]
    dims = [shift if kind == "collective_permute" else draw.randrange(len(s)) for s in shapes]

    def function(*shards: jax.Array) -> tuple[jax.Array, ...]:
        made = []
        for x, dim, used in zip(shards, dims, at_once, strict=True):
            found = KINDS[kind](jnp.sinh(x), dim, axes)
            made.append(jnp.tanh(found) if used else found)
        return tuple(
            each if used else jnp.tanh(each) for each, used in zip(made, at_once, strict=True)
        )

    # Eight shards after one another: each device has one of its own.
    values = [
        np.random.default_rng(draw.randrange(99)).normal(size=(8 * s[0], *s[1:])) for s in shapes
    ]
    specs = tuple(P(("a", "b")) for _ in shapes)
    mapped = jax.shard_map(function, mesh=MESH, in_specs=specs, out_specs=specs, check_vma=False)
    return mapped, [each.astype(np.float32) for each in values]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(4))
def test_a_bundle_of_any_kind_computes_the_same(kind: str, seed: int) -> None:
    function, values = drawn(kind, Random(f"{kind} {seed}"))
    text = jax.jit(function).lower(*values).as_text()
    module = sd.parse(text)
    sd.run_pipeline(module, BUNDLED)
    kinds = [entry.kind for entry in sd.communication(module).entries]
    assert kinds.count(kind) == 1, kinds
    assert sd.prove(sd.parse(text), module).answer == "proven"
    # By our own code, for the copies of rows.
    for found, expected in zip(
        sd.compile(module)(*values), jax.jit(function)(*values), strict=True
    ):
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


MOVES = {
    "reversed": lambda w: lax.rev(w, (0, 1)),
    "sliced": lambda w: w[:, 1:4],
    "turned": lambda w: jnp.roll(w.T, 1, 0).T,
    "padded": lambda w: jnp.pad(w, 1)[1:-1],
}


@pytest.mark.parametrize("seed", range(4))
def test_what_only_moves_elements_of_arguments_is_gathered_at_once(seed: int) -> None:
    draw = Random(seed)
    moves = [draw.choice([*MOVES]) for _ in range(4)]

    def function(x: jax.Array, *shards: jax.Array) -> jax.Array:
        for move, w in zip(moves, shards, strict=True):
            x = jnp.tanh(x * jnp.sum(lax.all_gather(MOVES[move](w), "b", tiled=True)))
        return x

    specs = tuple(P(("a", "b")) for _ in range(5))
    mapped = jax.shard_map(function, mesh=MESH, in_specs=specs, out_specs=specs[0], check_vma=False)
    values = [np.random.default_rng(n).normal(size=(32, 6)).astype(np.float32) for n in range(5)]
    text = jax.jit(mapped).lower(*values).as_text()
    module = sd.parse(text)
    sd.run_pipeline(module, BUNDLED)
    kinds = [entry.kind for entry in sd.communication(module).entries]
    assert kinds.count("all_gather") == 1, (moves, kinds)
    np.testing.assert_allclose(sd.compile(module)(*values), jax.jit(mapped)(*values), rtol=1e-4)
