"""`sd.torch.partition` on four ranks of gloo, that torchrun starts once for all."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import run_child
from tests.torch.run_on_ranks import CHECKS

pytestmark = pytest.mark.usefixtures("unoptimized")


def test_on_four_ranks() -> None:
    torchrun = str(Path(sys.executable).parent / "torchrun")
    command = [torchrun, "--standalone", "--nproc-per-node=4", "-m", "tests.torch.run_on_ranks"]
    done: subprocess.CompletedProcess[str] = run_child(command, timeout=500)
    assert done.returncode == 0, done.stdout + done.stderr
    said = [line.split() for line in done.stdout.splitlines()]
    assert [name for word, name in filter(None, said) if word == "done"] == list(CHECKS)
