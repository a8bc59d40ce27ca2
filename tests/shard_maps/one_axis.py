"""One of two axes is manual, the other free."""

from typing import Any

import jax
from jax import lax
from jax import numpy as jnp
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

from tests.shard_maps.case import AXES, case, constrained, local, mesh_of


@case((8, 16))
def one_axis(a: Any) -> Any:
    return local(AXES, "x", P("x"), P("x"))(jnp.tanh)(a)


@case((8, 16))
def a_constraint_inside(a: Any) -> Any:
    @local(AXES, "x", P("x"), P("x"))
    def body(b: Any) -> Any:
        return jnp.exp(constrained(jnp.sin(b), None, "d")) * 2

    return body(a)


@case((8, 16), (16, 12))
def a_product_of_parts(a: Any, b: Any) -> Any:
    @local(AXES, "x", (P(None, "x"), P("x")), P())
    def body(a: Any, b: Any) -> Any:
        return lax.psum(constrained(a, "d", None) @ b, "x")

    return body(a, b)


@case((8, 16), (16, 12))
def a_scattered_product(a: Any, b: Any) -> Any:
    @local(AXES, "x", (P(None, "x"), P("x")), P("x"))
    def body(a: Any, b: Any) -> Any:
        return lax.psum_scatter(a @ constrained(b, None, "d"), "x", tiled=True)

    return body(a, b)


@case((8, 16), (16, 16))
def a_ring(a: Any, w: Any) -> Any:
    @local(AXES, "x", (P(None, "x"), P(None, "x")), P(None, "x"))
    def body(a: Any, w: Any) -> Any:
        size, index = lax.axis_size("x"), lax.axis_index("x")
        step = a.shape[1]

        def one(number: Any, carried: Any) -> Any:
            total, shard = carried
            at = ((index - number) % size) * step
            total = total + constrained(shard @ lax.dynamic_slice_in_dim(w, at, step), "d")
            ring = [(each, (each + 1) % size) for each in range(size)]
            return total, lax.ppermute(shard, "x", ring)

        start = lax.pcast(jnp.zeros((a.shape[0], w.shape[1])), ("x",), to="varying")
        return lax.fori_loop(0, size, one, (start, a))[0]

    return body(a, w)


@case((8, 16))
def in_a_loop(a: Any) -> Any:
    body = local(AXES, "x", P("x"), P("x"))(lambda b: constrained(b, None, "d") - lax.pmean(b, "x"))
    return lax.fori_loop(0, 3, lambda _, value: body(value) * 1.5, a)


@case((8, 16))
def a_scan_inside(a: Any) -> Any:
    @local(AXES, "x", P(None, "x"), P(None, "x"))
    def body(b: Any) -> Any:
        start = lax.pcast(jnp.zeros(b.shape[1]), ("x",), to="varying")
        return lax.scan(lambda c, row: (c + row, constrained(c * row, "d")), start, b)[1]

    return body(a)


@case((8, 16))
def a_branch_inside(a: Any) -> Any:
    @local(AXES, "x", P("x"), P("x"))
    def body(b: Any) -> Any:
        return lax.cond(
            lax.psum(b.sum(), "x") > 0,
            lambda c: constrained(jnp.exp(c), None, "d"),
            lambda c: constrained(c * 2, None, "d"),
            b,
        )

    return body(a)


@case((8, 16), (16, 8))
def between_free_ops(a: Any, w: Any) -> Any:
    a = lax.with_sharding_constraint(a, NamedSharding(mesh_of(AXES), P("d", None)))
    h = jnp.tanh(a @ w)
    h = local(AXES, "x", P(None, "x"), P(None, "x"))(
        lambda b: jnp.exp(b - lax.pmax(lax.stop_gradient(b), "x"))
    )(h)
    return lax.with_sharding_constraint(h @ w.T, NamedSharding(mesh_of(AXES), P(None, ("d", "x"))))


@case((8, 16))
def of_indices(a: Any) -> Any:
    @local(AXES, "x", P("x"), P("x"))
    def body(b: Any) -> Any:
        return constrained(b, None, "d") + lax.axis_index("x").astype(b.dtype)

    return body(a)


@case((8, 16))
def two_computations(a: Any) -> Any:
    over_x = local(AXES, "x", P("x"), P("x"))(lambda b: constrained(b * 2, None, "d"))
    over_d = local(AXES, "d", P(None, "d"), P(None, "d"))(
        lambda b: constrained(b, "x") + lax.psum(b, "d").mean()
    )
    return over_d(over_x(a))


@case((8, 16), (16, 8))
def its_gradient(a: Any, w: Any) -> Any:
    @local(AXES, "x", (P(None, "x"), P("x")), P())
    def body(a: Any, w: Any) -> Any:
        return lax.psum(jnp.tanh(constrained(a, "d")) @ w, "x")

    return jax.grad(lambda a, w: (body(a, w) ** 2).sum(), argnums=(0, 1))(a, w)


@case((8, 16))
def an_exchange(a: Any) -> Any:
    @local(AXES, "x", P("x"), P(None, "x"))
    def body(b: Any) -> Any:
        return lax.all_to_all(constrained(b * 3, None, "d"), "x", 1, 0, tiled=True)

    return body(a)


@case((8, 16))
def a_gather(a: Any) -> Any:
    @local(AXES, "x", P("x"), P("x"))
    def body(b: Any) -> Any:
        whole = lax.all_gather(constrained(b, None, "d"), "x", tiled=True)
        return b @ jnp.sin(whole).T @ whole

    return body(a)


@case((8, 16))
def sums_along_a_free_dimension(a: Any) -> Any:
    @local(AXES, "x", P("x"), P("x"))
    def body(b: Any) -> Any:
        b = constrained(b, None, "d")
        return b / jnp.exp(b).sum(1, keepdims=True)

    return body(a)


@case((8, 16))
def a_function_that_is_called_twice(a: Any) -> Any:
    step = jax.jit(lambda b: constrained(jnp.sin(b), None, "d") * 2)
    return local(AXES, "x", P("x"), P("x"))(lambda b: step(b) + step(b + 1))(a)


@case((6, 10))
def free_dimensions_that_do_not_divide(a: Any) -> Any:
    @local(AXES, "d", P("d"), P("d"))
    def body(b: Any) -> Any:
        return jnp.exp(constrained(b, None, "x")).sum(1, keepdims=True) + b

    return body(a)


@case((8, 16), (4, 16, 16))
def stages_of_a_pipeline(a: Any, weights: Any) -> Any:
    @local(AXES, "x", (P(), P("x")), P("x"))
    def body(a: Any, w: Any) -> Any:
        stage, size = lax.axis_index("x"), lax.axis_size("x")
        parts = lax.pcast(a.reshape(4, 2, 16), ("x",), to="varying")

        def tick(state: Any, time: Any) -> Any:
            mine = jnp.where(stage == 0, parts[jnp.clip(time, 0, 3)], state)
            made = jnp.tanh(constrained(mine, None, "d") @ w[0])
            ring = [(each, (each + 1) % size) for each in range(size)]
            return lax.ppermute(made, "x", ring), made

        return lax.scan(tick, jnp.zeros_like(parts[0]), jnp.arange(7))[1][None, 3:]

    return body(a, weights)[-1].reshape(8, 16)


@case((8, 16))
def searches_and_sorts(a: Any) -> Any:
    @local(AXES, "x", P("x"), P("x"))
    def body(b: Any) -> Any:
        b = constrained(b, None, "d")
        best = jnp.argmax(b, axis=1, keepdims=True)
        return jnp.sort(b, axis=1) + jnp.take_along_axis(b, best, axis=1)

    return body(a)


@case((8, 16))
def a_while_loop_inside(a: Any) -> Any:
    @local(AXES, "x", P("x"), P("x"))
    def body(b: Any) -> Any:
        return lax.while_loop(
            lambda c: lax.pmax(jnp.abs(c).max(), "x") > 0.1,
            lambda c: constrained(c, None, "d") * 0.5,
            b,
        )

    return body(a)


@case((8, 2, 6, 6), (4, 2, 3, 3))
def a_convolution_inside(a: Any, w: Any) -> Any:
    @local(AXES, "x", (P("x"), P()), P("x"))
    def body(b: Any, w: Any) -> Any:
        return lax.conv(constrained(b, None, None, "d"), w, (1, 1), "SAME")

    return body(a, w)


@case((8, 16))
def left_open(a: Any) -> Any:
    a = lax.with_sharding_constraint(a, NamedSharding(mesh_of(AXES), P("x", "d")))

    @local(AXES, "x", P("x"), P("x"))
    def body(b: Any) -> Any:
        return jnp.exp(constrained(b, P.UNCONSTRAINED, P.UNCONSTRAINED)).sum(1, keepdims=True)

    return body(a)


@case((8, 16))
def in_another_that_is_called(a: Any) -> Any:
    @jax.jit
    def layer(a: Any) -> Any:
        return local(AXES, "x", P("x"), P("x"))(lambda b: constrained(jnp.sin(b), None, "d"))(a)

    return lax.fori_loop(0, 2, lambda _, c: layer(c) + layer(c * 2), layer(a))
