"""Each launcher and each door once, in the suite that runs by default; the rest of them is slow."""

import subprocess
import sys

import pytest

import shard_dialect as sd
from tests.conftest import ROOT, Program, run_child
from tests.extras import launched, needs
from tests.runtime.launching import Launch

EXAMPLE = ROOT / "examples" / "mlp_2d.mlir"
PASSED = "check passed"


@pytest.mark.parametrize("launch", launched("mpi", "mpi4py", "torch"))
def test_ranks_run_and_check(launch: Launch) -> None:
    program = ["-m", "shard_dialect.run", str(ROOT / "examples" / "mlp_1d.mlir"), "--check"]
    done = run_child(launch.command(2, *program))
    assert (done.returncode, PASSED in done.stdout) == (0, True), done.stdout + done.stderr


def test_threads_run_and_check(run: Program) -> None:
    assert PASSED in run(EXAMPLE, "--check").stdout


@needs("jax")
def test_xla_runs_and_checks() -> None:
    module = sd.parse(ROOT / "examples" / "mlp_stablehlo.mlir")
    assert sd.compile(module, "xla").check().passed


JAX = """
import jax, numpy as np, shard_dialect as sd
from jax.sharding import Mesh, PartitionSpec as P
mesh = Mesh(np.array(jax.devices()[:4]).reshape(2, 2), ("x", "y"))
def f(a, b): return jax.nn.relu(a @ b)
a, b = np.arange(64, dtype=np.float32).reshape(8, 8), np.eye(8, dtype=np.float32)
g = sd.jax.jit(f, mesh=mesh, in_shardings=(P("x"), P(None, "y")))
np.testing.assert_allclose(g(a, b), f(a, b))
"""
TORCH = """
import torch, shard_dialect as sd
from torch.distributed.tensor import Shard
module, x = torch.nn.Linear(8, 4), torch.randn(4, 8)
f = sd.torch.partition(module, (x,), {"input": [Shard(0)]}, sd.Grid("mesh", (2,), axes=("d",)))
torch.testing.assert_close(f(x), module(x))
"""


@pytest.mark.parametrize(
    "program",
    [pytest.param(JAX, marks=needs("jax")), pytest.param(TORCH, marks=needs("torch"))],
    ids=["jax", "torch"],
)
def test_a_door_is_right(program: str) -> None:
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
