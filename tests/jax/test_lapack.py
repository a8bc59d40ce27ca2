"""Calls of LAPACK, as JAX lowers decompositions: devices run them by scipy, as jaxlib does."""

import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.lax import linalg

import shard_dialect as sd
from shard_dialect.backends.python import written
from shard_dialect.backends.python.python_module import TARGETS, emit_python
from shard_dialect.errors import ShardError
from tests.conftest import Program

Array = Any
MATRICES = (2, 4, 4)
"""Of which each device has one."""


def symmetric(x: Array) -> Array:
    """Positive definite whatever is drawn."""
    return x @ jnp.conj(jnp.swapaxes(x, -1, -2)) + 4 * jnp.eye(4, dtype=x.dtype)


def triangular_solves(x: Array) -> list[Array]:
    return [
        linalg.triangular_solve(
            x + 4 * jnp.eye(4, dtype=x.dtype),
            x[..., :3] if left else x[..., :3, :],
            left_side=left,
            lower=lower,
            transpose_a=transposed,
            conjugate_a=conjugated,
            unit_diagonal=unit,
        )
        for left in (True, False)
        for lower in (True, False)
        for transposed, conjugated, unit in ((False, False, True), (True, False, False), (1, 1, 1))
    ]


def products_with_reflectors(x: Array) -> list[Array]:
    taus = x[..., 0, :] / 10
    return [
        linalg.ormqr(
            x, taus, x[..., :2] if left else x[..., :2, :], left=left, transpose=transposed
        )
        for left in (True, False)
        for transposed in (True, False)
    ]


def tridiagonal_solve(x: Array) -> Array:
    low, diagonal, high = x[..., 0].at[..., 0].set(0), x[..., 1] + 4, x[..., 2].at[..., 3].set(0)
    return linalg.tridiagonal_solve(low, diagonal, high, x[..., :2])


FUNCTIONS: dict[str, Callable[[Array], Any]] = {
    "cholesky": lambda x: jnp.linalg.cholesky(symmetric(x)),
    "qr": jnp.linalg.qr,
    "qr of high": lambda x: jnp.linalg.qr(x[..., :2], mode="complete"),
    "qr of wide": lambda x: jnp.linalg.qr(x[..., :2, :]),
    "pivoted qr": lambda x: linalg.qr(x, pivoting=True, full_matrices=False),
    "eigh": lambda x: jnp.linalg.eigh(symmetric(x)),
    "eigh of the upper part": lambda x: linalg.eigh(x, lower=False, symmetrize_input=False),
    "eig": linalg.eig,
    "eigvals": jnp.linalg.eigvals,
    "solve": lambda x: jnp.linalg.solve(x, x[..., :2]),
    "lu": linalg.lu,
    "lu of wide": lambda x: linalg.lu(x[..., :2, :]),
    "svd": jnp.linalg.svd,
    "svd of high": lambda x: jnp.linalg.svd(x[..., :2], full_matrices=False),
    "singular values": lambda x: jnp.linalg.svd(x[..., :3], compute_uv=False),
    "svd by qr": lambda x: linalg.svd(x, algorithm=linalg.SvdAlgorithm.QR),
    "schur": linalg.schur,
    "schur form": lambda x: linalg.schur(x, compute_schur_vectors=False),
    "hessenberg": linalg.hessenberg,
    "tridiagonal": lambda x: linalg.tridiagonal(symmetric(x)),
    "tridiagonal of the upper part": lambda x: linalg.tridiagonal(symmetric(x), lower=False),
    "tridiagonal solve": tridiagonal_solve,
    "triangular solves": triangular_solves,
    "householder product": lambda x: linalg.householder_product(x, x[..., 0, :] / 10),
    "products with reflectors": products_with_reflectors,
    "gradient of a solution": jax.grad(
        lambda x: jnp.sum(jnp.abs(jnp.linalg.solve(symmetric(x), x))).real
    ),
}
FOR_TPUS = ("qr", "qr of high", "eigh", "lu", "svd of high")


def lowered(function: Callable[[Array], Any], x: Array, platform: str = "cpu") -> str:
    """The function of a batch that is split between two devices, as JAX lowers it."""
    mesh = jax.sharding.AbstractMesh((2,), ("a",))
    split = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("a"))
    given = jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=split)
    program = jax.jit(function).trace(given).lower(lowering_platforms=(platform,))
    return sd.to_text(program, locations=True)


def matrices(dtype: str) -> np.ndarray[Any, Any]:
    rng = np.random.default_rng(5)
    drawn = rng.standard_normal(MATRICES) + 1j * rng.standard_normal(MATRICES)
    return (drawn if dtype.startswith("complex") else drawn.real).astype(dtype)


def check(text: str, x: Array, expected: Any, tolerance: float) -> None:
    found = sd.compile(sd.parse(text))(x)
    found = found if isinstance(found, (list, tuple)) else [found]
    for ours, theirs in zip(found, jax.tree.leaves(expected), strict=True):
        assert ours.dtype == theirs.dtype
        np.testing.assert_allclose(ours, theirs, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_devices_compute_what_jax_does(name: str, dtype: str) -> None:
    with jax.enable_x64(True):
        x, function = matrices(dtype), FUNCTIONS[name]
        tolerance = 2e-4 if dtype in ("float32", "complex64") else 1e-9
        check(lowered(function, x), x, jax.jit(function)(x), tolerance)


@pytest.mark.parametrize("name", ["cholesky", "eigh", "eig", "solve", "svd", "schur"])
@pytest.mark.parametrize("value", [np.nan, np.inf, 0.0])
def test_matrices_that_have_none(name: str, value: float) -> None:
    x, function = matrices("float32"), FUNCTIONS[name]
    x[1] = value
    check(lowered(function, x), x, jax.jit(function)(x), 2e-4)


@pytest.mark.parametrize("name", FOR_TPUS)
def test_what_jax_exports_for_tpus(name: str) -> None:
    """The calls of XLA's own names; signs of vectors are those of LAPACK."""
    x, function = matrices("float32"), FUNCTIONS[name]
    text = lowered(lambda x: jax.tree.map(jnp.abs, function(x)), x, "tpu")
    assert "custom_call @lapack" not in text
    check(text, x, jax.tree.map(np.abs, jax.jit(function)(x)), 2e-3)


@pytest.mark.parametrize("name", ["cholesky", "qr", "eigh", "solve"])
@pytest.mark.parametrize("backend", ["devices", "xla"])
def test_a_run_passes_its_check(name: str, backend: str, run: Program, tmp_path: Path) -> None:
    program = tmp_path / "in.mlir"
    program.write_text(lowered(FUNCTIONS[name], matrices("float32")))
    done = run(program, f"--backend={backend}", "--check")
    assert done.returncode == 0, done.stderr
    assert "check passed" in done.stdout


def test_what_cannot_be_called_is_refused_in_its_place() -> None:
    """JAX itself says where: in this file."""
    text = lowered(FUNCTIONS["qr"], matrices("float32"))
    place = rf"{re.escape(__file__)}:\d+:\d+: error: 'stablehlo.custom_call' op of @lapack_"
    by_rows = text.replace("dense<[1, 2, 0]>", "dense<[2, 1, 0]>")
    for other, why in (
        (by_rows, "cannot be lowered: its matrices are not stored by columns"),
        (text.replace("sgeqrf", "strsyl"), "cannot be lowered: only jaxlib has it"),
    ):
        module = sd.parse(other)
        with pytest.raises(ShardError) as found:
            sd.compile(module)
        assert re.match(place, str(found.value)), found.value
        assert why in str(found.value)
        for target in TARGETS:
            module = sd.parse(other)
            sd.run_pipeline(module, "spmd")
            with module.context, pytest.raises(ShardError, match=re.escape(why)):
                emit_python(module, target)


def test_without_scipy_a_run_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    x = matrices("float32")
    program = sd.compile(sd.parse(lowered(FUNCTIONS["qr"], x)))
    monkeypatch.setitem(sys.modules, "scipy.linalg", None)
    monkeypatch.delitem(sys.modules, f"{written.__name__}.with_lapack", raising=False)
    monkeypatch.delattr(written, "with_lapack", raising=False)
    with pytest.raises(ShardError, match="pip install scipy"):
        program(x)
