"""Pipeline stages as a loop over ticks, from JAX: `benchmarks/pipelined_decoder.py`."""

import sys
from pathlib import Path
from random import Random

import pytest

import shard_dialect as sd
from shard_dialect.ir.bindings import ir
from shard_dialect.proof.field import PRIME_GAPS, Field
from shard_dialect.proof.reading import read_program
from shard_dialect.proof.trial import Pair, Trial
from tests.conftest import run_child
from tests.extras import needs
from tests.slow import seed_of
from tests.testing.faults import faults_in

pytestmark = needs("jax")
COMMAND = [sys.executable, "-m", "benchmarks.pipelined_decoder"]
TURNS = 16 * 8 + 16 - 1
"""Of 16 microbatches, which go 8 times through 16 stages."""


@pytest.mark.parametrize("options", [[], ["--context"], ["--at-once"]])
def test_a_small_one_equals_the_plain_step(options: list[str]) -> None:
    done = run_child([*COMMAND, *options], 300)
    assert done.returncode == 0, done.stderr
    assert "equal to the step without stages" in done.stdout


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Llama 3 405B's step on 16,384 devices."""
    path = tmp_path_factory.mktemp("llama") / "llama.mlir"
    done = run_child([*COMMAND, "--write", str(path)], 300)
    assert done.returncode == 0, done.stderr
    return path


def test_llama_405b_on_16384_devices(path: Path) -> None:
    """Gradients are reduced once, each turn passes activations on once, and 80 GB are enough."""
    assert len(path.read_text().splitlines()) < 3500
    report = sd.report(sd.parse(path))
    in_the_loop = [each for each in report.communication if each.times == TURNS]
    assert not [each for each in in_the_loop if "data" in each.axes]
    passed_on = [each for each in in_the_loop if "stage" in each.axes]
    assert [each.kind for each in passed_on] == ["collective_permute"] * 2
    assert report.memory.peak < 80e9


@pytest.mark.exhaustive
def test_it_is_proven_by_a_program_of_few_devices(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """At the smallest sizes it is right at a point, and with a fault in a reduction it is wrong."""
    path = tmp_path / "llama.mlir"
    done = run_child([*COMMAND, "--at-once", "--write", str(path)], 300)
    assert done.returncode == 0, done.stderr
    module = sd.parse(path)
    sd.run_pipeline(module, "spmd")
    smallest = next(_pair(path, module).members())
    assert len(smallest.own.grid.devices) <= 64
    assert smallest.elements < 1 << 26
    assert Trial(smallest, Field(PRIME_GAPS[0], 0)).counterexample is None
    with module.context:
        listed = [each for each in faults_in(module.operation) if "reduction" in each.kind]
        fault = Random(seed_of(request.config)).choice(listed)
        fault.make()
    wrong = next(_pair(path, module).members())
    assert Trial(wrong, Field(PRIME_GAPS[0], 0)).counterexample is not None, fault


def _pair(path: Path, local: "ir.Module") -> Pair:
    whole, own = read_program(sd.parse(path)), read_program(local)
    return Pair(whole, own, whole.entry(), own.entry())
