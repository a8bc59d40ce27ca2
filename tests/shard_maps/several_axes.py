"""Axes that become manual one inside of the other, and some of three."""

from typing import Any

from jax import lax
from jax import numpy as jnp
from jax.sharding import PartitionSpec as P

from tests.shard_maps.case import AXES, THREE, case, constrained, inner, local


@case((8, 16))
def nested(a: Any) -> Any:
    @local(AXES, "x", P("x"), P("x"))
    def body(b: Any) -> Any:
        @inner("d", P(None, "d"), P(None, "d"))
        def deeper(c: Any) -> Any:
            return c - lax.pmax(c, ("d",))

        return deeper(jnp.cos(b)) + 1

    return body(a)


@case((8, 16, 4))
def nested_with_a_free_axis(a: Any) -> Any:
    @local(THREE, "x", P("x"), P("x"))
    def body(b: Any) -> Any:
        @inner("y", P(None, "y"), P(None, None))
        def deeper(c: Any) -> Any:
            return lax.psum(constrained(jnp.exp(c).sum(1, keepdims=True), None, None, "d"), "y")

        return b * deeper(b)

    return body(a)


@case((8, 16, 4))
def nested_thrice(a: Any) -> Any:
    @local(THREE, "x", P("x"), P("x"))
    def body(b: Any) -> Any:
        @inner("y", P(None, "y"), P(None, "y"))
        def deeper(c: Any) -> Any:
            @inner("d", P(None, None, "d"), P(None, None, "d"))
            def deepest(d: Any) -> Any:
                return d + lax.psum(d, ("d",))

            return deepest(c) * 2

        return deeper(b) + constrained(b, None, "y", "d")

    return body(a)


@case((8, 16, 4))
def one_of_three_axes(a: Any) -> Any:
    @local(THREE, "y", P(None, "y"), P(None, "y"))
    def body(b: Any) -> Any:
        b = constrained(b, "d", None, "x")
        return jnp.einsum("ijk,ljk->ilj", b, b)[:, :2]

    return body(a)


@case((8, 16, 4))
def two_of_three_axes(a: Any) -> Any:
    @local(THREE, "xd", P(("d", "x")), P("x", None, "d"), check=False)
    def body(b: Any) -> Any:
        b = lax.psum(constrained(b, None, "y"), "d")
        return jnp.concatenate([b, b * 2], axis=0)[:, :, :2]

    return body(a)


@case((8, 16, 4))
def nested_in_a_scan(a: Any) -> Any:
    @local(THREE, "x", P(None, "x"), P(None, "x"))
    def body(b: Any) -> Any:
        def step(carry: Any, row: Any) -> Any:
            made = inner("y", P(None, "y"), P(None, "y"))(
                lambda c: c - lax.pmax(c.max(1, keepdims=True), "y")
            )(constrained(carry + row, "d"))
            return made, made.sum()

        start = lax.pcast(jnp.zeros(b.shape[1:]), ("x",), to="varying")
        return lax.scan(step, start, b)[0][None]

    return body(a)
