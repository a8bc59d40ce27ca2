"""Pipeline stages as a loop over ticks, from JAX: `benchmarks/pipelined_decoder.py`."""

import sys
from pathlib import Path

import shard_dialect as sd
from tests.conftest import run_child
from tests.extras import needs

pytestmark = needs("jax")
COMMAND = [sys.executable, "-m", "benchmarks.pipelined_decoder"]
TURNS = 16 * 8 + 16 - 1
"""Of 16 microbatches, which go 8 times through 16 stages."""


def test_a_small_one_equals_the_plain_step() -> None:
    done = run_child(COMMAND, 300)
    assert done.returncode == 0, done.stderr
    assert "equal to the step without stages" in done.stdout


def test_llama_405b_on_16384_devices(tmp_path: Path) -> None:
    """Gradients are reduced once, each turn passes activations on once, and 80 GB are enough."""
    path = tmp_path / "llama.mlir"
    done = run_child([*COMMAND, "--write", str(path)], 300)
    assert done.returncode == 0, done.stderr
    assert len(path.read_text().splitlines()) < 2000
    report = sd.report(sd.parse(path))
    in_the_loop = [each for each in report.communication if each.times == TURNS]
    assert not [each for each in in_the_loop if "data" in each.axes]
    passed_on = [each for each in in_the_loop if "stage" in each.axes]
    assert [each.kind for each in passed_on] == ["collective_permute"] * 2
    assert report.memory.peak < 80e9
