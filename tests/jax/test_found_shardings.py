"""`in_shardings=sd.AUTO`: a search finds the shardings of a JAX function."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

import shard_dialect as sd
from shard_dialect.jax import jitted

SHORT = sd.AutoOptions(objective="bytes", memory_limit=8_000, plans=400)


@pytest.fixture
def mesh() -> Mesh:
    return Mesh(np.array(jax.devices()[:4]).reshape(2, 2), ("data", "model"))


def layer(x: Any, weights: dict[str, Any]) -> Any:
    return jnp.tanh(x @ weights["up"]) @ weights["down"]


def arguments() -> tuple[Any, dict[str, Any]]:
    rng = np.random.default_rng(0)
    up, down = (rng.standard_normal(shape, np.float32) for shape in ((16, 64), (64, 16)))
    return rng.standard_normal((32, 16), np.float32), {"up": up, "down": down}


def test_it_computes_what_the_function_does(mesh: Mesh) -> None:
    found = jitted.jit(layer, mesh=mesh, in_shardings=SHORT)
    given = arguments()
    np.testing.assert_allclose(found(*given), layer(*given), rtol=1e-4, atol=1e-4)
    result = found.found(*given)
    assert result.costs.peak <= 8_000
    assert result is found.found(*given)  # one search for arguments of these shapes
    report = sd.report(found.lower(*given))
    assert (report.devices, report.bytes_moved) == (4, result.costs.bytes)
    assert {axis for each in report.communication for axis in each.axes} <= {"data", "model"}


def test_gradients_and_several_results(mesh: Mesh) -> None:
    def step(x: Any, weights: dict[str, Any]) -> Any:
        def loss(weights: dict[str, Any]) -> Any:
            return (layer(x, weights) ** 2).mean()

        found, gradients = jax.value_and_grad(loss)(weights)
        return jax.tree.map(lambda w, g: w - 0.1 * g, weights, gradients), found

    options = sd.AutoOptions(objective="bytes", memory_limit=20_000, plans=100)
    given = arguments()
    weights, loss = jitted.jit(step, mesh=mesh, in_shardings=options)(*given)
    expected, expected_loss = step(*given)
    np.testing.assert_allclose(loss, expected_loss, rtol=1e-4)
    for name, each in weights.items():
        np.testing.assert_allclose(each, expected[name], rtol=1e-4, atol=1e-5)


def test_what_is_refused(mesh: Mesh) -> None:
    with pytest.raises(sd.ShardError, match="give jit one, by mesh="):
        jitted.jit(layer, in_shardings=sd.AUTO)
    with pytest.raises(sd.ShardError, match="goes with no out_shardings and static_argnums"):
        jitted.jit(layer, mesh=mesh, in_shardings=sd.AUTO, out_shardings=None, static_argnums=1)
    with pytest.raises(sd.ShardError, match="mesh= says which devices there are"):
        jitted.jit(layer, mesh=mesh, in_shardings=sd.AutoOptions(devices=8))
    tight = sd.AutoOptions(memory_limit=10, seconds=0.1)
    with pytest.raises(sd.ShardError, match="takes 10 bytes on a device"):
        jitted.jit(layer, mesh=mesh, in_shardings=tight)(*arguments())


def test_the_shardings_are_what_jax_takes(mesh: Mesh) -> None:
    found = jitted.jit(layer, mesh=mesh, in_shardings=SHORT)
    given = arguments()
    of_arguments, of_results = found.shardings(*given)
    assert jax.tree.structure(of_arguments, is_leaf=lambda each: each is None) == (
        jax.tree.structure(given)
    )
    ours = jitted.jit(layer, mesh=mesh, in_shardings=of_arguments, out_shardings=of_results)
    np.testing.assert_allclose(ours(*given), layer(*given), rtol=1e-4, atol=1e-4)


X = np.arange(64, dtype=np.float32).reshape(8, 8) / 10
UPPER = np.triu(np.ones((8, 8), np.float32))
HALF = X.astype(np.float16)


def times(x: Any, factor: Any) -> Any:
    return x * factor


def under_x64(f: Any) -> Any:
    with jax.enable_x64(True):
        return f(X, np.float64(2))


def found_again(f: Any) -> Any:
    first = f(X, 2.0)
    jax.clear_caches()
    return first, f(X, 2.0)


OTHERS: dict[str, tuple[Callable[..., Any], Callable[[Any], Any]]] = {
    "transposed": (lambda x: UPPER @ x, lambda f: jax.vjp(f, X)[1](X)),
    "linear": (lambda x: UPPER @ x, lambda f: jax.linear_transpose(f, X)(X)),
    "forward": (lambda x: jnp.sin(UPPER @ x), lambda f: jax.jvp(f, (X,), (X,))),
    "gradient": (
        lambda x: jnp.sin(UPPER @ x),
        lambda f: jax.value_and_grad(lambda x: f(x).sum())(X),
    ),
    "vmap": (lambda x: x * 2 + x.sum(), lambda f: jax.vmap(f)(X)),
    "weak, then strong": (times, lambda f: (f(HALF, 2.0), f(HALF, jnp.float32(2)))),
    "strong, then weak": (times, lambda f: (f(HALF, jnp.float32(2)), f(HALF, 2.0))),
    "x64": (lambda x, y: x * y * jnp.arange(8.0), lambda f: (f(X, 2.0), under_x64(f), f(X, 2.0))),
    "cleared": (lambda x, y: x * y * next(COUNT), found_again),
    "outer": (lambda x: UPPER @ x, lambda f: jax.jit(lambda x: f(x) + 1)(X)),
    "a key": (lambda k: jax.random.normal(k, (8, 8)), lambda f: f(jax.random.key(0))),
    "printed": (lambda x: jax.debug.print("{}", x.sum()) or x * 2, lambda f: f(X)),
}


@pytest.mark.parametrize("name", OTHERS)
def test_what_jax_makes_of_the_function_is_another(name: str, mesh: Mesh) -> None:
    """The annotated module is that of the function as it was searched, and of nothing else."""
    global COUNT
    function, program = OTHERS[name]
    results = []
    for jit in (jax.jit, lambda f: jitted.jit(f, mesh=mesh, in_shardings=FEW)):
        COUNT = iter(range(1, 9))
        jax.clear_caches()
        results.append(jax.tree.leaves(program(jit(function))))
    for theirs, ours in zip(*results, strict=True):
        assert (ours.dtype, ours.weak_type) == (theirs.dtype, theirs.weak_type)
        np.testing.assert_allclose(ours, theirs, rtol=1e-3, atol=1e-4)


COUNT = iter([1])
FEW = sd.AutoOptions(objective="bytes", memory_limit=2_000, plans=20)


def test_results_of_a_step_are_arguments_of_the_next(mesh: Mesh) -> None:
    """Wherever they lie: the shardings are not the user's."""

    def step(weights: Any, x: Any) -> Any:
        gradients = jax.grad(lambda w: (layer(x, w) ** 2).mean())(weights)
        return jax.tree.map(lambda w, g: w - 0.1 * g, weights, gradients)

    x, weights = arguments()
    options = sd.AutoOptions(objective="bytes", memory_limit=25_000, plans=200)
    found = jitted.jit(step, mesh=mesh, in_shardings=options)
    expected = weights
    for _ in range(3):
        weights, expected = found(weights, x), step(expected, x)
    for name, each in weights.items():
        np.testing.assert_allclose(each, expected[name], rtol=1e-3, atol=1e-4)
    columns = jax.device_put(x, NamedSharding(mesh, P(None, "model")))
    tight = jitted.jit(lambda x: x * 2, mesh=mesh, in_shardings=FEW)
    np.testing.assert_array_equal(tight(columns), x * 2)


def test_it_is_lowered_as_other_functions_are(mesh: Mesh) -> None:
    """With the options of `jit`, also those that the search sets itself."""
    module = sd.jax.lower(times, X, X, mesh=mesh, in_shardings=FEW)
    assert sd.report(module).devices == 4
    kept = jitted.jit(times, mesh=mesh, in_shardings=FEW, keep_unused=True)
    np.testing.assert_array_equal(kept(X, X), X * X)


def test_keyword_arguments_are_refused(mesh: Mesh) -> None:
    with pytest.raises(sd.ShardError, match=r"no keyword arguments \(factor\)"):
        jitted.jit(times, mesh=mesh, in_shardings=FEW)(X, factor=2.0)
