"""What a program takes grows as the program does: not faster, and not with the devices at all.

Measured in the processor's time, which is the same on a busy machine.
"""

import sys
import time
import warnings
from pathlib import Path

import pytest

from shard_dialect.errors import ShardError, ShardWarning
from shard_dialect.ir.context import make_context
from shard_dialect.ir.reading.source import Source
from shard_dialect.passes import calls
from shard_dialect.passes.framework.pipeline import run_pipeline
from tests.conftest import Program, run_child
from tests.programs.growing import growing

pytestmark = pytest.mark.usefixtures("unoptimized")

MANY = {
    "arguments": 1000,
    "results": 1000,
    "functions": 400,
    "chain": 1000,
    "mixed_chain": 400,
    "annotations": 1000,
    "upstream_annotations": 400,
    "constraints_on_one_value": 800,
    "uses_of_one_value": 600,
    "products_with_one_weight": 1200,
    "blocks": 800,
    "calls_in_calls": 600,
    "calls_in_a_manual_computation": 600,
}
"""How many are a lot."""
DEEP = {"nested_ifs": 40, "nested_fors": 40, "nested_manual_computations": 40}
SECONDS = 5.0


def seconds(text: str, pipeline: str) -> float:
    """The processor's time that reading the program and running the passes takes."""
    with make_context(), warnings.catch_warnings():
        warnings.simplefilter("ignore", ShardWarning)
        begin = time.process_time()
        module = Source.of(text).parse()
        run_pipeline(module, pipeline)
        return time.process_time() - begin


@pytest.mark.parametrize(("name", "n"), MANY.items(), ids=MANY)
def test_four_times_as_many_take_four_times_as_long(name: str, n: int) -> None:
    seconds(growing(name, 8), "spmd")  # what is done once
    few, many = (seconds(growing(name, count), "spmd") for count in (n // 4, n))
    assert many < 8 * few + 0.2  # 16 times, if it took as long for each pair


@pytest.mark.parametrize(("name", "n"), DEEP.items(), ids=DEEP)
def test_what_is_nested_deep_takes_no_longer(name: str, n: int) -> None:
    assert seconds(growing(name, n), "spmd,lower") < SECONDS


@pytest.mark.parametrize("name", ["nested_ifs", "nested_fors"])
def test_what_is_nested_deep_runs(name: str, run: Program, tmp_path: Path) -> None:
    file = tmp_path / "in.mlir"
    file.write_text(growing(name, 40))
    begin = time.monotonic()
    done = run(file, "--check")
    assert done.returncode == 0, done.stderr
    assert "check passed" in done.stdout
    assert time.monotonic() - begin < 6 * SECONDS  # it takes one, on a machine that is not busy


def test_a_long_chain_is_checked(run: Program, tmp_path: Path) -> None:
    pytest.importorskip("jaxlib")
    file = tmp_path / "in.mlir"
    file.write_text(growing("chain", 6000).replace("math.tanh", "stablehlo.tanh"))
    done = run(file, "--check", "--reference-by=xla")
    assert done.returncode == 0, done.stderr
    assert "check passed" in done.stdout


@pytest.mark.parametrize("name", ["devices", "devices_with_halos"])
@pytest.mark.parametrize("n", [1_000, 1_000_000, 1_000_000_000])
def test_devices_take_no_time(name: str, n: int) -> None:
    seconds(growing(name, 4), "spmd")
    assert seconds(growing(name, n), "spmd") < SECONDS


def test_devices_that_differ_in_too_many_ways_are_refused_at_once() -> None:
    assert seconds(growing("devices_that_are_told_apart", 100), "spmd") < SECONDS
    begin = time.process_time()
    with pytest.raises(ShardError, match="tells 1,000,000,000,000 devices apart") as raised:
        seconds(growing("devices_that_are_told_apart", 1_000_000), "spmd")
    assert raised.value.location is not None
    assert time.process_time() - begin < SECONDS


def test_a_report_of_too_many_devices_is_refused_at_once(tmp_path: Path) -> None:
    file = tmp_path / "in.mlir"
    file.write_text(growing("devices", 1_000_000_000))
    begin = time.monotonic()
    done = run_child([sys.executable, "-m", "shard_dialect.report", str(file)])
    assert done.returncode == 1
    assert (
        "devices: a report counts the messages of at most 1,048,576; give it fewer" in done.stderr
    )
    assert time.monotonic() - begin < 6 * SECONDS  # with the start of a process


def test_calls_that_double_with_each_level_are_not_all_copied(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(calls, "_MOST", 1000)  # copies; ten times as many take ten times as long
    assert seconds(growing("calls_in_calls_twice", 40), "spmd") < 3 * SECONDS
