"""The time of one device, against times that are worked out by hand."""

import json
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest

import shard_dialect as sd
from shard_dialect.analysis.costs.local_program import read_program
from shard_dialect.analysis.costs.schedule import Schedule, schedule_of
from shard_dialect.analysis.trace import live_bytes, moments_of, trace_of
from shard_dialect.ir.bindings import ir
from shard_dialect.model.devices.device_model import DeviceModel
from tests.conftest import ROOT

EXAMPLES = sorted((ROOT / "examples").glob("*.mlir"))
# A multiplication and an addition take 1 s, 1000 bytes take 1 s, and a message takes 10 s.
SLOW = """
name = "slow"
sources = []
[flops]
f32 = 2
[memory]
bytes = 1000000
bytes_per_second = 1000
[[network]]
name = "pigeon"
bytes_per_second = 1e12
latency = 10
"""


def scheduled(text: str) -> Schedule:
    module = sd.parse(text)
    sd.run_pipeline(module, "spmd,canonicalize,cse")
    with module.context, ir.Location.unknown():
        program = read_program(module.operation, "main")
    return schedule_of(program, DeviceModel.parse(SLOW))


GATHER = """
shard.grid @g(shape = 2)
func.func @main(%x: tensor<4x2xf32> {mesh.sharding = #mesh.shard<@g, [[0], []]>},
                %y: tensor<3x5xf32>, %z: tensor<5x7xf32>)
    -> (tensor<4x2xf32> {mesh.sharding = #mesh.shard<@g, [[], []]>},
        tensor<3x7xf32> {mesh.sharding = #mesh.shard<@g, [[], []]>}) {
  %0 = stablehlo.dot_general %y, %z, contracting_dims = [1] x [0]
      : (tensor<3x5xf32>, tensor<5x7xf32>) -> tensor<3x7xf32>
  return %x, %0 : tensor<4x2xf32>, tensor<3x7xf32>
}
"""


def test_overlapping_hides_what_is_not_needed() -> None:
    """A gather of two devices takes one message, the product 3 * 5 * 7 steps."""
    found = scheduled(GATHER)
    assert found.compute == pytest.approx(105)
    assert found.communication == pytest.approx(10)
    assert found.exposed_communication == pytest.approx(10)
    assert found.total == pytest.approx(115)
    assert found.overlapped_total == pytest.approx(105)
    assert found.critical_path == pytest.approx(105)
    assert found.hidden_by_overlap == pytest.approx(10)
    assert {(each.name, each.bound) for each in found.events} == {
        ("stablehlo.dot_general", "compute"),
        ("shard.all_gather", "network"),
    }


def test_what_moves_elements_is_bound_by_the_memory() -> None:
    text = """
func.func @main(%x: tensor<20x30xf32>) -> tensor<30x20xf32> {
  %0 = stablehlo.transpose %x, dims = [1, 0] : (tensor<20x30xf32>) -> tensor<30x20xf32>
  return %0 : tensor<30x20xf32>
}
"""
    (event,) = scheduled(text).events
    assert event.bound == "memory"
    assert event.bytes == 2 * 20 * 30 * 4
    assert event.seconds == pytest.approx(4.8)


def test_fused_results_cause_no_traffic() -> None:
    text = """
func.func @main(%x: tensor<100xf32>) -> tensor<100xf32> {
  %0 = stablehlo.negate %x : tensor<100xf32>
  %1 = stablehlo.abs %0 : tensor<100xf32>
  return %1 : tensor<100xf32>
}
"""
    first, second = scheduled(text).events
    assert (first.bytes, second.bytes) == (400, 400)
    assert first.bound == second.bound == "compute"
    assert first.seconds == pytest.approx(50)


LOOP = """
shard.grid @g(shape = 2)
func.func @main(%x: tensor<4x4xf32> {mesh.sharding = #mesh.shard<@g, [[0], []]>})
    -> (tensor<4x4xf32> {mesh.sharding = #mesh.shard<@g, [[0], []]>}) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c5 = arith.constant 5 : index
  %0 = scf.for %i = %c0 to %c5 step %c1 iter_args(%s = %x) -> (tensor<4x4xf32>) {
    %1 = stablehlo.dot_general %s, %s, contracting_dims = [1] x [0]
        : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    scf.yield %1 : tensor<4x4xf32>
  }
  return %0 : tensor<4x4xf32>
}
"""


def test_a_loop_counts_as_often_as_it_runs() -> None:
    """Each time a gather of 10 s and a product of 2 * 4 * 4 steps."""
    found = scheduled(LOOP)
    assert found.total == pytest.approx(5 * (10 + 32))
    assert found.exposed_communication == pytest.approx(50)
    assert found.critical_path == found.overlapped_total == found.total
    assert {each.times for each in found.events} == {5}


def test_a_split_collective_runs_beside_what_is_between() -> None:
    module = sd.parse(GATHER)
    sd.run_pipeline(module, "spmd,overlap-collectives")
    text = str(module)
    assert "mesh.done" in text
    found = scheduled(text)
    assert found.total == pytest.approx(105)
    assert found.exposed_communication == pytest.approx(0)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_parts_and_bounds(path: Path) -> None:
    report = sd.report(sd.parse(path))
    found = report.schedule
    if path.stem == "pipeline_mlp":  # of two stages, the schedule is of one
        assert found.communication < report.communication_seconds
    else:
        assert found.communication == pytest.approx(report.communication_seconds)
    assert found.total == pytest.approx(found.compute + found.exposed_communication)
    assert found.critical_path <= found.overlapped_total <= found.total
    for one, other in pairwise(found.events):
        assert other.start >= one.start + one.seconds - 1e-15
    assert sum(each.seconds for each in found.critical_ops) == pytest.approx(found.critical_path)
    seconds = report.as_json()["seconds"]
    assert isinstance(seconds, dict)
    assert {"total", "exposed_communication"} <= seconds.keys()


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_a_trace_has_each_device(path: Path) -> None:
    report = sd.report(sd.parse(path))
    events = trace_of(report)["traceEvents"]
    assert isinstance(events, list)
    for device in range(report.devices):
        own = [each for each in events if each["pid"] == device]
        ops = [each for each in own if each["ph"] == "X"]
        assert len(ops) == len(report.schedule.events)
        last = max((each["ts"] + each["dur"] for each in ops), default=0)
        assert last == pytest.approx(report.schedule.total * 1e6)
        live = [each["args"]["bytes"] for each in own if each["ph"] == "C"]
        assert max(live) <= report.memory.peak
    named = list(live_bytes(report.schedule.events, moments_of(report)))
    assert len(named) >= len(report.schedule.events) / 2


def test_of_a_large_grid_the_first_devices(tmp_path: Path) -> None:
    source = tmp_path / "in.mlir"
    source.write_text(GATHER.replace("shape = 2", "shape = 64").replace("4x2", "64x2"))
    out = tmp_path / "out.json"
    command = [sys.executable, "-m", "shard_dialect.report", str(source), "--trace", str(out)]
    subprocess.run(command, check=True, capture_output=True, timeout=300)
    trace = json.loads(out.read_text())
    assert trace["otherData"]["devices_shown"] == 16
    assert trace["otherData"]["devices"] == 64
    assert {each["pid"] for each in trace["traceEvents"]} == set(range(16))


def test_a_function_returns_in_any_of_its_blocks() -> None:
    """Its last block, which branches to another one, passes two tensors; the function has one."""
    module = sd.parse("""
shard.grid @grid(shape = 2)
func.func @main(
  %x: tensor<8x4xf32> {mesh.sharding = #mesh.shard<@grid, [[0]]>}, %p: i1
) -> tensor<8x4xf32> {
  %0 = call @f(%x, %p) : (tensor<8x4xf32>, i1) -> tensor<8x4xf32>
  return %0 : tensor<8x4xf32>
}
func.func private @f(%x: tensor<8x4xf32>, %p: i1) -> tensor<8x4xf32> {
  cf.cond_br %p, ^a, ^b(%x, %x : tensor<8x4xf32>, tensor<8x4xf32>)
^b(%v: tensor<8x4xf32>, %w: tensor<8x4xf32>):
  return %v : tensor<8x4xf32>
^a:
  %0 = stablehlo.tanh %x : tensor<8x4xf32>
  cf.br ^b(%0, %x : tensor<8x4xf32>, tensor<8x4xf32>)
}
""")
    report = sd.report(module, device_model="h100")
    assert "stablehlo.tanh" in [each.name for each in report.schedule.events]
    assert report.memory.peak >= 3 * 4 * 4 * 4
