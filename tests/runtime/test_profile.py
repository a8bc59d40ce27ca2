"""`run --profile` says what each device did when, and the report shows it beside the model."""

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import shard_dialect as sd
from shard_dialect.runtime.profiling.merged_trace import merged
from tests.conftest import ROOT, Program, run_child
from tests.extras import launched, needs
from tests.runtime.launching import Launch

EXAMPLES = ROOT / "examples"


def events_of(path: Path, category: str) -> list[dict[str, Any]]:
    events = json.loads(path.read_text())["traceEvents"]
    return [each for each in events if each.get("cat") == category]


def event(rank: int, start: float, duration: float, devices: list[int]) -> dict[str, Any]:
    args = {"devices": devices, "axes": ["0"], "operand": "4xf32", "result": "8xf32", "bytes": 16}
    return {
        "name": "all_gather",
        "cat": "collective",
        "ph": "X",
        "pid": rank,
        "tid": 1,
        "ts": start,
        "dur": duration,
        "args": args | {"together": True},
    }


def test_clocks_of_hosts_are_set_and_waiting_is_until_the_last_one_comes() -> None:
    one = {"host": "a", "now": 1e-6, "events": [event(0, 11, 9, [0, 1]), event(0, 31, 5, [0, 1])]}
    other = {"host": "b", "now": 5e-6, "events": [event(1, 18, 6, [0, 1]), event(1, 35, 5, [0, 1])]}
    found = [each for each in merged([one, other])["traceEvents"] if each["ph"] == "X"]
    assert [(each["pid"], each["ts"], each["args"]["waiting"]) for each in found] == [
        (0, 0, 3),
        (0, 20, 0),
        (1, 3, 0),
        (1, 20, 0),
    ]


def test_time_is_computing_or_waiting(run: Program, tmp_path: Path) -> None:
    trace = tmp_path / "trace.json"
    done = run(EXAMPLES / "mlp_2d.mlir", f"--profile={trace}", "--check")
    assert done.returncode == 0, done.stderr
    assert len(events_of(trace, "collective")) == 4 * 8
    for rank in range(8):
        own = [
            each
            for category in ("compute", "wait")
            for each in events_of(trace, category)
            if each["pid"] == rank
        ]
        own.sort(key=lambda each: each["ts"])
        assert [each["cat"] for each in own] == ["compute", *["wait", "compute"] * 4]
        for one, next_ in pairwise(own):
            assert one["ts"] + one["dur"] == pytest.approx(next_["ts"], abs=1e-2)
    report = sd.report(sd.parse(EXAMPLES / "mlp_2d.mlir"), measured=trace)
    measurement = report.measurement
    assert measurement is not None
    assert len(measurement.collectives) == 4
    assert 0 < measurement.computing + measurement.waiting <= measurement.total * 1.5
    assert [each.bytes for each in report.communication] == [
        each["args"]["bytes"] for each in events_of(trace, "collective") if each["pid"] == 0
    ]
    assert "waits for others" in str(report)


@pytest.mark.parametrize("name", ["pipeline_mlp", "convolution", "training_step"])
def test_stages_halos_and_loops(name: str, run: Program, tmp_path: Path) -> None:
    trace = tmp_path / "trace.json"
    done = run(EXAMPLES / f"{name}.mlir", f"--profile={trace}")
    assert done.returncode == 0, done.stderr
    sd.report(sd.parse(EXAMPLES / f"{name}.mlir"), measured=trace)


def test_started_collectives_run_beside_computation(run: Program, tmp_path: Path) -> None:
    module = sd.parse(EXAMPLES / "mlp_2d.mlir")
    sd.run_pipeline(module, "spmd,overlap-collectives")
    program, trace = tmp_path / "in.mlir", tmp_path / "trace.json"
    program.write_text(sd.to_text(module))
    done = run(program, f"--profile={trace}")
    assert done.returncode == 0, done.stderr
    assert len(events_of(trace, "collective")) == 4 * 8
    sd.report(sd.parse(program), measured=trace)


@pytest.mark.parametrize("launch", launched("mpi", "mpi4py", "torch"))
def test_ranks(launch: Launch, tmp_path: Path) -> None:
    trace = tmp_path / "trace.json"
    program = ["-m", "shard_dialect.run", str(EXAMPLES / "mlp_1d.mlir"), f"--profile={trace}"]
    done = run_child(launch.forked(2, *program), 300)
    assert done.returncode == 0, done.stderr
    ranks = {each["pid"] for each in events_of(trace, "collective")}
    assert ranks == {0, 1}
    sd.report(sd.parse(EXAMPLES / "mlp_1d.mlir"), measured=trace)


@needs("jax")
def test_xla_is_profiled_by_its_own_profiler(run: Program, tmp_path: Path) -> None:
    trace = tmp_path / "trace.json"
    done = run(EXAMPLES / "mlp_1d.mlir", "--backend=xla", f"--profile={trace}")
    assert done.returncode == 0, done.stderr
    names = {each["name"] for each in json.loads(trace.read_text())["traceEvents"]}
    assert any("endezvous" in name for name in names), names  # of its collectives
    collectives, kernels = events_of(trace, "xla collective"), events_of(trace, "xla kernel")
    for rank in range(2):
        own = [each["name"].split()[0] for each in collectives if each["pid"] == rank]
        assert sorted(own) == ["all-gather", "reduce-scatter"]
        assert any(each["pid"] == rank and each["dur"] > 0 for each in kernels)
    assert device_names(trace) == {0: "device 0", 1: "device 1"}
    others = [each for each in json.loads(trace.read_text())["traceEvents"] if "cat" not in each]
    assert not {0, 1} & {each["pid"] for each in others if each["ph"] == "X"}
    with pytest.raises(sd.ShardError, match="has no run of ours"):
        sd.report(sd.parse(EXAMPLES / "mlp_1d.mlir"), measured=trace)


@pytest.mark.parametrize("launch", launched("torch"))
def test_torch_is_profiled_by_its_own_profiler(launch: Launch, tmp_path: Path) -> None:
    trace = tmp_path / "trace.json"
    program = ["-m", "shard_dialect.run", str(EXAMPLES / "mlp_1d.mlir"), f"--profile={trace}"]
    done = run_child(launch.forked(2, *program, "--compiler=torch"), 300)
    assert done.returncode == 0, done.stderr
    events = json.loads(trace.read_text())["traceEvents"]
    assert device_names(trace) == {0: "device 0", 1: "device 1"}
    for rank in range(2):
        own = {each["name"] for each in events if each["pid"] == rank and each["ph"] == "X"}
        assert any("all_gather" in name or "allgather" in name for name in own), own
        assert any(name.startswith("aten::") for name in own)
    with pytest.raises(sd.ShardError, match="has no run of ours"):
        sd.report(sd.parse(EXAMPLES / "mlp_1d.mlir"), measured=trace)


def device_names(trace: Path) -> dict[int, str]:
    """The names of the processes of devices."""
    return {
        each["pid"]: each["args"]["name"]
        for each in json.loads(trace.read_text())["traceEvents"]
        if each["name"] == "process_name" and each["args"]["name"].startswith("device")
    }


def test_traces_of_others_are_refused(run: Program, tmp_path: Path) -> None:
    trace = tmp_path / "trace.json"
    assert run(EXAMPLES / "mlp_2d.mlir", f"--profile={trace}").returncode == 0
    with pytest.raises(
        sd.ShardError, match="is the trace of another program: it has all_gather of 2x4x1xf32"
    ):
        sd.report(sd.parse(EXAMPLES / "mlp_1d.mlir"), measured=trace)
    with pytest.raises(sd.ShardError, match="is no trace"):
        sd.report(sd.parse(EXAMPLES / "mlp_1d.mlir"), measured=EXAMPLES / "mlp_1d.mlir")
    with pytest.raises(sd.ShardError, match="cannot read"):
        sd.report(sd.parse(EXAMPLES / "mlp_1d.mlir"), measured=tmp_path / "none.json")


def test_the_program_is_not_overwritten(run: Program, tmp_path: Path) -> None:
    program = tmp_path / "in.mlir"
    program.write_text((EXAMPLES / "mlp_1d.mlir").read_text())
    done = run(program, f"--profile={program}")
    assert done.returncode == 1
    assert "error:" in done.stderr
    assert program.read_text() == (EXAMPLES / "mlp_1d.mlir").read_text()
