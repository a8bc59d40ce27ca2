"""The example prints the same losses in one process and on four ranks."""

import sys
from pathlib import Path

import pytest

from tests.conftest import run_child

pytestmark = pytest.mark.usefixtures("unoptimized")

EXAMPLE = "examples/llama_torch.py"


def test_the_same_in_process_and_on_ranks() -> None:
    torchrun = str(Path(sys.executable).parent / "torchrun")
    commands = ([sys.executable], [torchrun, "--standalone", "--nproc-per-node=4"])
    here, ranks = (run_child([*command, EXAMPLE], timeout=400) for command in commands)
    assert (here.returncode, ranks.returncode) == (0, 0), here.stderr + ranks.stderr
    losses = [float(line.rpartition(" ")[2]) for line in here.stdout.splitlines()]
    assert len(losses) == 3
    assert losses == sorted(losses, reverse=True)
    there = [float(line.rpartition(" ")[2]) for line in ranks.stdout.splitlines()]
    assert there == pytest.approx(losses, abs=2e-4)
