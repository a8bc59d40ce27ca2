"""The Python programs of examples/ end well, each in a process of its own."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.extras import needs

EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
OF_TORCH = ["fsdp2_torch", "generate_torch", "llama_torch", "tensor_parallel_torch"]
"""Examples that `tests/torch` runs, to compare what they say."""


def extras_of(path: Path) -> list[str]:
    """The extras that an example's first lines say to install."""
    head = path.read_text().partition('"""\n')[0]
    return re.findall(r"shard-dialect\[(\w+)\]", head)


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(each, id=each.stem, marks=needs(*extras_of(each)))
        for each in EXAMPLES
        if each.stem not in OF_TORCH
    ],
)
def test_example_runs(path: Path, tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    environment.pop("XLA_FLAGS")  # as a user's is: the example itself asks for devices
    command = [sys.executable, str(path)]
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_example_is_short(path: Path) -> None:
    assert len(path.read_text().splitlines()) <= 62
