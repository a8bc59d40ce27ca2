"""What the examples from JAX lower runs on four ranks, too, as docs/jax.md tells."""

import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT, run_child
from tests.extras import launched, needs
from tests.runtime.launching import Launch

pytestmark = pytest.mark.usefixtures("unoptimized")
EXAMPLES = ["megatron_jax", "experts_jax", pytest.param("gpt2_flax", marks=needs("examples"))]


_LOWER = """
import runpy, sys
import shard_dialect as sd

def keep(module):
    with open(sys.argv[2], "w") as file:
        file.write(sd.to_text(module))
    raise SystemExit

sd.communication = keep
runpy.run_path(sys.argv[1])["main"]()
"""
"""Writes the module that an example reports the communication of. It is a process of its own, since
an example decides how many devices JAX has."""


@pytest.fixture(scope="module")
def texts() -> dict[str, str]:
    """The modules of examples that were lowered before."""
    return {}


@pytest.fixture
def program(example: str, texts: dict[str, str], tmp_path: Path) -> str:
    """The file of an example's module."""
    path = tmp_path / "in.mlir"
    if example not in texts:
        source = str(ROOT / "examples" / f"{example}.py")
        done = run_child([sys.executable, "-c", _LOWER, source, str(path)], 300)
        assert done.returncode == 0, done.stderr
        texts[example] = path.read_text()
    path.write_text(texts[example])
    return str(path)


def check(program: str, launch: Launch, *more: str) -> None:
    command = launch.forked(4, "-m", "shard_dialect.run", program, "--check", *more)
    done = run_child(command, 300)
    assert done.returncode == 0, done.stderr
    assert "check passed" in done.stdout


@pytest.mark.parametrize("launch", launched("mpi"))
@pytest.mark.parametrize("example", EXAMPLES)
def test_on_ranks_of_mpi(program: str, launch: Launch) -> None:
    check(program, launch)


@pytest.mark.exhaustive
@pytest.mark.parametrize("launch", launched("torch"))
@pytest.mark.parametrize("example", EXAMPLES)
def test_on_ranks_of_torch(program: str, launch: Launch) -> None:
    check(program, launch)


@pytest.mark.parametrize("launch", launched("torch"))
@pytest.mark.parametrize("example", EXAMPLES)
def test_on_ranks_that_compute_with_torch(program: str, launch: Launch) -> None:
    check(program, launch, "--compiler=torch")
