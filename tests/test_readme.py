"""What the README shows is what its commands do, line by line as they stand."""

import os
import re
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import ROOT, Program, run_child
from tests.extras import needs

FIRST_RUN = re.compile(
    r"<!-- first run -->\n```sh\n(.*?)\n```\n.*?\n((?:    [^\n]*\n)+)", re.DOTALL
)


def test_the_first_command_prints_what_is_shown(run: Program) -> None:
    match = FIRST_RUN.search((ROOT / "README.md").read_text())
    assert match is not None
    command = shlex.split(match[1].rpartition(" -m shard_dialect.run ")[2])
    shown = "".join(line.removeprefix("    ") for line in match[2].splitlines(keepends=True))
    assert run(*command).stdout == shown


SHELL = re.compile(r"### From the command line.*?```sh\n(.*?)\n```", re.DOTALL)
EXTRAS = {"--backend=xla": "jax", "--backend=mpi": "mpi", "--backend=torch": "torch"}


def command_lines() -> Iterator[object]:
    match = SHELL.search((ROOT / "README.md").read_text())
    assert match is not None
    first, *lines = filter(None, match[1].splitlines())
    for line in lines:
        marks = [needs(extra) for flag, extra in EXTRAS.items() if flag in line]
        yield pytest.param(f"{first}\n{line}", marks=marks, id=line.partition("  ")[0])


@pytest.mark.parametrize("text", list(command_lines()))
def test_each_line_for_the_shell_runs(text: str, tmp_path: Path) -> None:
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = run_child(["env", "-C", str(tmp_path), f"PATH={path}", "bash", "-ec", text])
    assert done.returncode == 0, done.stderr
    assert "error" not in done.stderr


PYTHON = re.compile(
    r"### From ([^\n]*)\n(?:(?!^### ).)*?```python\n(.*?)```", re.DOTALL | re.MULTILINE
)


def python_block(title: str) -> str:
    blocks = dict(PYTHON.findall((ROOT / "README.md").read_text()))
    return blocks[title]


@needs("jax")
def test_the_lines_for_jax_run(capsys: pytest.CaptureFixture[str]) -> None:
    import jax
    import jax.numpy as jnp
    import numpy as np
    from jax.sharding import Mesh, PartitionSpec

    from shard_dialect.backends.xla.xla_devices import devices

    names = {
        "P": PartitionSpec,
        "layer": lambda x, w: jnp.tanh(x @ w),
        "mesh": Mesh(np.array(devices(4)).reshape(2, 2), ("data", "model")),
        "x": jnp.ones((4, 8)),
        "w": jnp.ones((8, 6)),
    }
    exec(python_block("JAX"), names)
    assert isinstance(names["y"], jax.Array)
    assert "communication" in capsys.readouterr().out


@needs("torch")
def test_the_lines_for_torch_run() -> None:
    import torch
    from torch.distributed.tensor import Replicate, Shard
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel

    import shard_dialect as sd

    class Mlp(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.up, self.down = torch.nn.Linear(8, 16), torch.nn.Linear(16, 8)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            found: torch.Tensor = self.down(torch.relu(self.up(x)))
            return found

    names = {
        "sd": sd,
        "Shard": Shard,
        "Replicate": Replicate,
        "ColwiseParallel": ColwiseParallel,
        "RowwiseParallel": RowwiseParallel,
        "mesh": sd.Grid("mesh", (2, 2), axes=("dp", "tp")),
        "module": Mlp(),
        "x": torch.ones(4, 8),
    }
    exec(python_block("PyTorch"), names)
    torch.testing.assert_close(names["y"], names["module"](names["x"]))


def test_the_lines_for_the_library_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import numpy as np

    (tmp_path / "in.mlir").write_text((ROOT / "examples" / "megatron.mlir").read_text())
    monkeypatch.chdir(tmp_path)
    arrays = {
        name: np.ones(shape, np.float32)
        for name, shape in {"x": (8, 16), "w1": (16, 64), "w2": (64, 16)}.items()
    }
    exec(python_block("Python, as a library"), dict(arrays))
    assert "all_reduce" in capsys.readouterr().out


def test_the_shortened_program_is_the_example_s() -> None:
    """Its lines stand in the file, as far as they are not cut."""
    shown = (ROOT / "README.md").read_text().partition("```mlir\n")[2].partition("```")[0]
    whole = " ".join((ROOT / "examples" / "megatron.mlir").read_text().split())
    for line in shown.splitlines():
        for part in line.split("..."):
            assert " ".join(part.split()) in whole, part
