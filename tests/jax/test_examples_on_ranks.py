"""What the examples from JAX lower runs on four ranks, too, as docs/jax.md tells."""

import runpy
import warnings
from pathlib import Path
from typing import Any

import pytest

import shard_dialect as sd
from tests.conftest import ROOT, run_child
from tests.extras import launched, needs
from tests.runtime.launching import Launch

pytestmark = pytest.mark.usefixtures("unoptimized")
EXAMPLES = ["megatron_jax", "experts_jax", pytest.param("gpt2_flax", marks=needs("examples"))]


class _Lowered(Exception):
    """Ends an example once it has lowered its function."""


@pytest.fixture(scope="module")
def texts() -> dict[str, str]:
    return {}


def text_of(example: str, known: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> str:
    """The module that the example reports the communication of."""

    def keep(module: Any) -> None:
        known[example] = sd.to_text(module)
        raise _Lowered

    if example not in known:
        monkeypatch.setattr(sd, "communication", keep)
        warnings.simplefilter("ignore")  # of transformers
        with pytest.raises(_Lowered):
            runpy.run_path(str(ROOT / "examples" / f"{example}.py"))["main"]()
    return known[example]


@pytest.fixture
def program(
    example: str, texts: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> str:
    """The file of an example's module."""
    path = tmp_path / "in.mlir"
    path.write_text(text_of(example, texts, monkeypatch))
    return str(path)


def check(program: str, launch: Launch, *more: str) -> None:
    command = launch.command(4, "-m", "shard_dialect.run", program, "--check", *more)
    done = run_child(command, 300)
    assert done.returncode == 0, done.stderr
    assert "check passed" in done.stdout


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("launch", launched("mpi"))
@pytest.mark.parametrize("example", EXAMPLES)
def test_on_ranks_of_mpi(program: str, launch: Launch) -> None:
    check(program, launch)


@pytest.mark.exhaustive
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("launch", launched("torch"))
@pytest.mark.parametrize("example", EXAMPLES)
def test_on_ranks_of_torch(program: str, launch: Launch) -> None:
    check(program, launch)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("launch", launched("torch"))
@pytest.mark.parametrize("example", EXAMPLES)
def test_on_ranks_that_compute_with_torch(program: str, launch: Launch) -> None:
    check(program, launch, "--compiler=torch")
