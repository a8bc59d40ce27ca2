"""What JAX exports with sizes left open (`jax.export`), run for some of them, against JAX."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from shard_dialect.errors import ShardError
from shard_dialect.passes.specialize.shape_rules import written
from shard_dialect.runtime.dynamic_sizes import Sizes
from tests.extras import missing, needs
from tests.runtime.test_sizes import run

if missing(["jax"]):
    jax = export = jnp = None
else:
    import jax
    from jax import export
    from jax import numpy as jnp

pytestmark = needs("jax")
MESH = 'sdy.mesh @g = <["x"=2]>\n'
SPLIT = '{sdy.sharding = #sdy.sharding<@g, [{"x"}]>}'


def exported(function: Callable[..., Any], *shapes: str) -> str:
    """The program, whose first argument is split along its first dimension."""
    scope = export.SymbolicScope()
    open_ = [export.symbolic_shape(shape, scope=scope) for shape in shapes]
    given = [jax.ShapeDtypeStruct(shape, jnp.float32) for shape in open_]
    module = export.export(jax.jit(function))(*given).mlir_module()
    head, rest = module.split("func.func public @main(", 1)
    rank = shapes[0].count(",")
    split = SPLIT.replace("]>}", ", {}" * rank + "]>}")
    return f"{head}{MESH}func.func public @main({rest.replace('> loc', f'> {split} loc', 1)}"


CASES: dict[str, tuple[Callable[..., Any], tuple[str, ...]]] = {
    "sizes that must agree": (lambda x, y: x + y, ("b, 8", "b, 8")),
    "softmax": (lambda x: jax.nn.softmax(x, -1), ("b, n",)),
    "attention": (
        lambda q, k, v: jax.nn.softmax(q @ k.swapaxes(-1, -2)) @ v,
        ("b, s, 8", "b, s, 8", "b, s, 8"),
    ),
    "helpers called with several sizes": (lambda x: x[::2] + jnp.roll(x[::2], 1, 0), ("b, n",)),
    "division of sizes": (lambda x: x.reshape(x.shape[0], 2, -1).sum(1), ("b, 2*n",)),
    "a function called with two shapes": (
        lambda x, y: (f := jax.jit(lambda a: jnp.tanh(a) * a.shape[0]))(x).sum() + f(y).sum(),
        ("a, n", "b, n"),
    ),
    "scan": (lambda x: jax.lax.scan(lambda c, a: (c + a, c * 2), x[0], x)[1], ("b, n",)),
    "while": (
        lambda x: jax.lax.while_loop(lambda c: c.sum() < 100, lambda c: abs(c) * 2 + 1, x),
        ("b, n",),
    ),
    "barrier": (
        lambda x: jax.grad(lambda y: jnp.sum(jax.checkpoint(lambda a: jnp.sin(jnp.sin(a)))(y)))(x),
        ("b, n",),
    ),
    "regions that read constants": (lambda x: jnp.sort(x, 1), ("b, n",)),
    "composites": (lambda x: jax.scipy.special.erf(x), ("b, n",)),
    "strides and padding": (
        lambda x: jax.lax.conv(x, jnp.ones((2, 3, 3, 3)), (2, 2), "SAME"),
        ("b, 3, h, w",),
    ),
}
SHAPES = {"b": 4, "a": 6, "n": 6, "s": 3, "h": 8, "w": 7, "2*n": 6, "3": 3, "8": 8}


@pytest.mark.parametrize(("function", "shapes"), CASES.values(), ids=CASES)
def test_exported(function: Callable[..., Any], shapes: tuple[str, ...]) -> None:
    sizes = [tuple(SHAPES[each] for each in shape.split(", ")) for shape in shapes]
    random = np.random.default_rng(1)
    inputs = [random.standard_normal(each).astype(np.float32) for each in sizes]
    found = run(exported(function, *shapes), Sizes(",".join(map(written, sizes))), *inputs)
    np.testing.assert_allclose(found, jax.jit(function)(*inputs), rtol=1e-5, atol=1e-5)


def test_sizes_that_jax_wants_to_agree() -> None:
    text = exported(lambda x, y: x.sum() + y.sum(), "b, 8", "b, 8")
    inputs = [np.ones((each, 8), np.float32) for each in (4, 6)]
    with pytest.raises(ShardError, match=r"Found inconsistency between dimension size args\[1\]"):
        run(text, Sizes("4x8,6x8"), *inputs)
