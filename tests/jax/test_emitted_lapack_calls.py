"""Emitted programs call LAPACK as JAX does, of batches that are split between two devices."""

import random
from pathlib import Path

import jax
import numpy as np
import pytest

from shard_dialect.abi.tensor_types import Array
from tests.emit.test_emit_python import Batch, emit
from tests.jax.test_lapack import FOR_TPUS, FUNCTIONS, lowered, matrices
from tests.slow import seed_of

pytestmark = pytest.mark.usefixtures("unoptimized")


class _Batch(Batch):
    """Checks results against JAX's."""

    def of_jax(self, name: str, x: Array, platform: str = "cpu") -> None:
        def function(x: Array) -> object:
            made = FUNCTIONS[name](x)
            return jax.tree.map(abs, made) if platform == "tpu" else made

        theirs = [np.asarray(each) for each in jax.tree.leaves(jax.jit(function)(x))]
        folder = self.folder / f"{name}_{x.dtype}_{platform}_{len(self)}".replace(" ", "_")
        folder.mkdir()
        allowed = [2e-3 if each.dtype.itemsize <= 8 else 1e-9 for each in theirs]

        def check(found: object) -> None:
            for ours, theirs_, by in zip(found, theirs, allowed, strict=True):
                assert ours.dtype == theirs_.dtype
                np.testing.assert_allclose(ours, theirs_, rtol=by, atol=by, err_msg=folder.name)

        program, ranks = emit(lowered(function, x, platform), self.target)
        assert ranks == 2
        assert ("scipy" in program) == ("custom_call" in lowered(function, x, platform))
        self._put(folder, program, ranks, [x], check)


@pytest.mark.parametrize("target", ["mpi4py", "torch"])
def test_decompositions_are_those_of_jax(
    target: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    batch = _Batch(target, tmp_path)
    draw = random.Random(seed_of(request.config))
    for name in FUNCTIONS:
        batch.of_jax(name, matrices(draw.choice(("float32", "complex64"))))
        if name in ("cholesky", "eigh", "eig", "solve", "svd", "schur"):
            x = matrices("float32")
            x[1] = draw.choice((np.nan, np.inf, 0.0))
            batch.of_jax(name, x)
    for name in FOR_TPUS:
        batch.of_jax(name, matrices("float32"), "tpu")
    batch.check()
