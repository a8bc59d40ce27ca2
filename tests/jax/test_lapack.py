"""Calls of LAPACK, as JAX lowers decompositions for CPUs: who runs them, and who refuses them."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import pytest

from shard_dialect.backends.python.python_module import TARGETS, emit_python
from shard_dialect.errors import ShardError
from shard_dialect.ir.context import make_context
from shard_dialect.ir.reading.source import Source
from shard_dialect.passes.framework.pipeline import run_pipeline
from tests.conftest import Program


def _symmetric(decomposition: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """On a matrix that is positive definite whatever is drawn."""

    def made(x: Any) -> Any:
        return decomposition(x @ x.T + 4 * jax.numpy.eye(4))

    return made


linalg = jax.numpy.linalg
FUNCTIONS: dict[str, tuple[Callable[..., Any], list[tuple[int, ...]], str]] = {
    "cholesky": (_symmetric(linalg.cholesky), [(4, 4)], "lapack_spotrf_ffi"),
    "qr": (lambda x: linalg.qr(x), [(4, 4)], "lapack_sgeqrf_ffi"),
    "eigh": (_symmetric(lambda x: linalg.eigh(x).eigenvalues), [(4, 4)], "lapack_ssyevd_ffi"),
    "solve": (linalg.solve, [(4, 4), (4, 2)], "lapack_sgetrf_ffi"),
}


def exported(name: str, platform: str) -> str:
    """The function on a grid of two devices, as JAX exports it."""
    function, shapes, _ = FUNCTIONS[name]
    given = [jax.ShapeDtypeStruct(shape, "float32") for shape in shapes]
    text = jax.export.export(jax.jit(function), platforms=[platform])(*given).mlir_module()
    return re.sub(r"(module @\w+.*\{\n)", r"\1shard.grid @g(shape = 2)\n", text, count=1)


def lower(name: str, how: str) -> None:
    """By a pipeline, or in the Python of a target."""
    with make_context():
        module = Source.of(exported(name, "cpu")).parse()
        run_pipeline(module, "spmd")
        if how in TARGETS:
            emit_python(module, how)
        else:
            run_pipeline(module, how)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_our_own_backends_refuse_it_in_its_place(name: str) -> None:
    """JAX itself says where: in this file."""
    place = rf"{re.escape(__file__)}:\d+:\d+: error: 'stablehlo.custom_call' op of "
    for how in ("lower", "lower{target=mpi}", *TARGETS):
        with pytest.raises(ShardError) as found:
            lower(name, how)
        error = str(found.value)
        assert re.match(place, error), error
        assert f"@{FUNCTIONS[name][2]} cannot be lowered: only jaxlib has LAPACK" in error
        assert "--backend=xla" in error
        assert ('platforms=["tpu"]' in error) == (name == "cholesky")


@pytest.mark.parametrize("name", FUNCTIONS)
def test_xla_runs_it(name: str, run: Program, tmp_path: Path) -> None:
    program = tmp_path / "in.mlir"
    program.write_text(exported(name, "cpu"))
    done = run(program, "--backend=xla", "--check")
    assert done.returncode == 0, done.stderr
    assert "check passed" in done.stdout


def test_what_jax_exports_for_another_platform_runs_everywhere(
    run: Program, tmp_path: Path
) -> None:
    program = tmp_path / "in.mlir"
    program.write_text(exported("cholesky", "tpu"))
    done = run(program, "--check")
    assert done.returncode == 0, done.stderr
    assert "check passed" in done.stdout
