"""Random loops in loops, whose carried arrays change places, on our own code: the numbers of JAX.

What a loop carries may be in the memory of what it started from, or of the iteration before, so
these programs also read what they started from, write parts of arrays, and pass arrays on.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import shard_dialect as sd

Arrays = Sequence[Any]
SHAPES = [(8,), (5, 6), (3, 4, 5), (1,), (17, 9)]
KINDS = ["scan", "fori", "while"]


def part(array: Any, number: Any) -> Any:
    return jax.lax.dynamic_index_in_dim(array, number % array.shape[0], 0)


OPS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "add": lambda a, b, _: a + b,
    "multiply": lambda a, b, _: jnp.tanh(a * b),
    "choose": lambda a, b, _: jnp.where(a > 0, a, b),
    "shift": lambda a, _b, _: jnp.roll(a, 1, 0),
    "center": lambda a, _b, _: a - a.mean(0, keepdims=True),
    "read": lambda a, b, i: a + part(b, i),
    "write": lambda a, b, i: jax.lax.dynamic_update_index_in_dim(
        a, part(b, 0)[0] + 1, i % a.shape[0], 0
    ),
    "branch": lambda a, b, i: jax.lax.cond(i % 2 == 0, lambda each: each / 2, lambda _: b, a),
}


@dataclass(frozen=True)
class Loop:
    """`next` computes what each array becomes, of carried ones and of those at the beginning."""

    kind: str
    trips: int
    next: tuple[Callable[[Arrays, Arrays, Any], Any], ...]
    inner: "Loop | None"
    is_inner_first: bool

    @classmethod
    def drawn(cls, draw: random.Random, count: int, depth: int) -> "Loop":
        inner = cls.drawn(draw, count, depth - 1) if depth and draw.random() < 0.6 else None
        computed = tuple(expression(draw, count, draw.randint(0, 3)) for _ in range(count))
        trips = draw.choice([0, 1, 2, 3, 5])
        return cls(draw.choice(KINDS), trips, computed, inner, draw.random() < 0.5)

    def run(self, arrays: Arrays, first: Arrays) -> Arrays:
        def body(number: Any, now: Arrays) -> tuple[Any, ...]:
            before = now
            if self.inner and self.is_inner_first:
                now = self.inner.run(now, now)
            made = tuple(each(now, first, number) for each in self.next)
            if self.inner and not self.is_inner_first:
                made = tuple(self.inner.run(made, before))
            return made

        start = tuple(arrays)
        if self.kind == "fori":
            return jax.lax.fori_loop(0, self.trips, body, start)
        if self.kind == "scan":
            numbers = jnp.arange(self.trips, dtype=jnp.int32)
            return jax.lax.scan(lambda now, i: (body(i, now), None), start, numbers)[0]

        def goes_on(state: Arrays) -> Any:
            return (state[0] < self.trips) & (jnp.abs(state[1]).max() < 1e6)

        def step(state: Arrays) -> Arrays:
            return (state[0] + 1, *body(state[0], state[1:]))

        return jax.lax.while_loop(goes_on, step, (jnp.int32(0), *start))[1:]


def expression(draw: random.Random, count: int, depth: int) -> Callable[[Arrays, Arrays, Any], Any]:
    if not depth or draw.random() < 0.25:
        index, is_first = draw.randrange(count), draw.random() < 0.4
        return lambda now, first, _: (first if is_first else now)[index]
    join = OPS[draw.choice(list(OPS))]
    a, b = (expression(draw, count, depth - 1) for _ in range(2))
    return lambda now, first, i: join(a(now, first, i), b(now, first, i), i)


@pytest.mark.parametrize("seed", range(60))
def test_a_loop_is_as_with_jax(seed: int) -> None:
    draw = random.Random(seed)
    count, shape = draw.randint(2, 4), draw.choice(SHAPES)
    loop = Loop.drawn(draw, count, 1)

    @jax.jit
    def program(*arrays: Any) -> Any:
        made = loop.run(arrays, arrays)
        return (*made, *(a + b for a, b in zip(arrays, made, strict=True)))

    random_numbers = np.random.default_rng(seed)
    arrays = [random_numbers.standard_normal(shape).astype(np.float32) for _ in range(count)]
    results = sd.run(sd.parse(program.lower(*arrays).as_text()), *arrays)
    for ours, theirs in zip(results, program(*arrays), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=2e-4, atol=2e-4)
