"""`in_shardings=sd.AUTO`: a search finds the shardings of a JAX function."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh

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
