"""`sd.jax.jit(..., prove=True)`: what is compiled is proven to be the function, or refused."""

import warnings
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType, Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

import shard_dialect as sd
from shard_dialect.jax import jitted
from shard_dialect.jax.partition_module import partition_module
from shard_dialect.jax.proving import Proven

X, W1, W2 = (
    np.random.default_rng(0).random(shape, np.float32) for shape in ((8, 16), (16, 64), (64, 16))
)
SPECS = (P("data"), P(None, "model"), P("model"))


@pytest.fixture
def mesh() -> Mesh:
    return Mesh(np.array(jax.devices()[:8]).reshape(2, 4), ("data", "model"))


@pytest.fixture(autouse=True)
def warnings_are_errors() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("error", sd.ShardWarning)
        yield


def layer(x: Any, w1: Any, w2: Any) -> Any:
    return jax.nn.gelu(x @ w1) @ w2


def test_what_is_proven_runs_and_says_so_when_asked(mesh: Mesh) -> None:
    f = sd.jax.jit(layer, mesh=mesh, in_shardings=SPECS, prove=True)
    np.testing.assert_allclose(f(X, W1, W2), layer(X, W1, W2), rtol=1e-4)
    assert f.proof(X, W1, W2).answer == "proven"
    assert f.proof(*(jax.ShapeDtypeStruct(each.shape, each.dtype) for each in (X, W1, W2)))
    assert not hasattr(sd.jax.jit(layer, mesh=mesh, in_shardings=SPECS), "proof")


@pytest.mark.filterwarnings("ignore:.*pjit:DeprecationWarning")
def test_it_is_an_option_of_all_that_jit_takes(mesh: Mesh) -> None:
    @sd.jax.jit(mesh=mesh, in_shardings=SPECS, prove=True)
    def decorated(x: Any, w1: Any, w2: Any) -> Any:
        return layer(x, w1, w2)

    assert decorated.proof(X, W1, W2).answer == "proven"
    named = tuple(NamedSharding(mesh, spec) for spec in SPECS)
    assert sd.jax.pjit(layer, in_shardings=named, prove=True).proof(X, W1, W2).answer == "proven"
    gradient = sd.jax.jit(
        jax.grad(lambda *given: jnp.sum(layer(*given) ** 2), argnums=(0, 1, 2)),
        mesh=mesh,
        in_shardings=SPECS,
        prove=True,
    )
    gradient(X, W1, W2)
    assert gradient.proof(X, W1, W2).answer == "proven"


def test_found_shardings_are_proven(mesh: Mesh) -> None:
    find = sd.AutoOptions(plans=5)
    f = sd.jax.jit(layer, mesh=mesh, in_shardings=find, prove=True)
    np.testing.assert_allclose(f(X, W1, W2), layer(X, W1, W2), rtol=1e-4)
    assert f.proof(X, W1, W2).answer == "proven"
    with pytest.raises(sd.ShardError, match="give jit prove=True"):
        sd.jax.jit(layer, mesh=mesh, in_shardings=find).proof(X, W1, W2)


def wrong(module: Any, right: str, other: str) -> Any:
    made = partition_module(module)
    with made.context:
        text = made.operation.get_asm(print_generic_op_form=True)
        assert right in text
        return type(made).parse(text.replace(right, other))


def test_what_is_refuted_is_not_compiled(mesh: Mesh, monkeypatch: pytest.MonkeyPatch) -> None:
    of_model, of_none = "[[0, 1, 2, 3], [4, 5, 6, 7]]", "[[0, 1, 4, 5], [2, 3, 6, 7]]"
    for right, other in ((of_model, of_none), ('"stablehlo.tanh"', '"stablehlo.sine"')):
        partition = partial(wrong, right=right, other=other)
        monkeypatch.setattr(jitted, "_PROVEN", Proven(partition))
        f = sd.jax.jit(layer, mesh=mesh, in_shardings=SPECS, prove=True)
        with pytest.raises(sd.ShardError, match="refuted: result 0: the program has another numb"):
            f(X, W1, W2)
        assert "on random inputs confirms it" in str(f.proof(X, W1, W2)) or right == of_model


def test_what_is_unknown_warns(mesh: Mesh) -> None:
    def largest(x: Any) -> Any:
        return jax.lax.approx_max_k(x, 4, recall_target=1.0)[0]

    f = sd.jax.jit(largest, mesh=mesh, in_shardings=(P(None, "data"),), prove=True)
    with pytest.warns(sd.ShardWarning, match=r"unknown: result 0: .*'stablehlo.custom_call' at"):
        np.testing.assert_array_equal(f(X), largest(X))
    assert f.proof(X).answer == "unknown"


def test_parts_of_sums_are_proven() -> None:
    """Unreduced arguments and results: each device has a summand."""
    devices = np.array(jax.devices()[:8]).reshape(2, 4)
    mesh = Mesh(devices, ("data", "model"), axis_types=(AxisType.Explicit,) * 2)

    def partly(x: Any, w: Any) -> Any:
        return jnp.einsum("ij,jk->ik", x, w, out_sharding=P(None, None, unreduced={"model"}))

    with jax.set_mesh(mesh):
        x = jax.device_put(X[:, :8], P(None, "model"))
        w = jax.device_put(X, P("model", None))
        parts = sd.jax.jit(partly, prove=True)
        y = parts(x, w)
        assert parts.proof(x, w).answer == "proven"
        whole = sd.jax.jit(lambda y: jax.reshard(y, P()), prove=True)
        np.testing.assert_allclose(whole(y), X[:, :8] @ X, rtol=1e-4)
        assert whole.proof(y).answer == "proven"
