"""Each example on devices in this process, on MPI ranks, and under torchrun."""

import json
import subprocess
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from _pytest.mark import ParameterSet

from tests.conftest import ROOT, Program, run_child
from tests.extras import needs
from tests.runtime.launching import Launch, launches

EXPECTED = {
    "mlp_1d": [("all_gather", 2, 128), ("reduce_scatter", 2, 128)],
    "mlp_2d": [
        ("all_gather", 4, 96),
        ("reduce_scatter", 2, 128),
        ("all_gather", 2, 128),
        ("reduce_scatter", 4, 96),
    ],
    "megatron": [("all_reduce", 2, 256)],
    "mlp_stablehlo": [("all_reduce", 2, 256)],
    "convolution": [
        ("update_halo", 3, 128),
        ("update_halo", 2, 160),
        ("update_halo", 3, 128),
        ("update_halo", 2, 144),
    ],
    "pipeline_mlp": [
        ("reduce_scatter", 2, 64),
        ("collective_permute", 2, 64),
        ("all_gather", 2, 64),
        ("all_reduce", 2, 128),
    ],
    "slow_ffn": [*[("all_to_all", 4, 196608)] * 3, ("all_reduce", 4, 393216)],
    "training_step": [],  # it has no annotations, before --pipeline
}
EXPECTED["mlp_1d_mesh"] = EXPECTED["mlp_1d"]
EXPECTED["mlp_2d_mesh"] = EXPECTED["mlp_2d"]
DEVICES = {"mlp_1d": 2, "mlp_1d_mesh": 2, "mlp_2d": 8, "mlp_2d_mesh": 8, "megatron": 4}
DEVICES["mlp_stablehlo"] = 4
DEVICES["convolution"] = 6
DEVICES["pipeline_mlp"] = 4
DEVICES["training_step"] = 4
DEVICES["slow_ffn"] = 8

LIKE_OTHERS = {"mlp_1d", "mlp_1d_mesh", "mlp_2d_mesh", "mlp_stablehlo"}
"""Examples that communicate as one of the others does."""


def samples(most: int) -> list[ParameterSet]:
    """The examples; those that are like others, or on more than `most` ranks, when all are run."""
    left = LIKE_OTHERS | {each for each in EXPECTED if DEVICES[each] > most}
    return [
        pytest.param(each, marks=[pytest.mark.exhaustive] if each in left else [])
        for each in sorted(EXPECTED)
    ]


needs_mpi = needs("mpi")
needs_torch = needs("torch")


def beside_python(program: str) -> str:
    return str(Path(sys.executable).parent / program)


RUN = ("-m", "shard_dialect.run")


def of_backend(name: str) -> Launch:
    return next(each for each in launches() if each.backend == name)


def mpi(ranks: int, *arguments: str) -> "subprocess.CompletedProcess[str]":
    return run_child(of_backend("mpi").forked(ranks, *RUN, *arguments))


def torchrun(ranks: int, *arguments: str) -> "subprocess.CompletedProcess[str]":
    return run_child(of_backend("torch").forked(ranks, *RUN, *arguments))


BACKENDS = pytest.mark.parametrize(
    "backend",
    [
        "devices",
        pytest.param("mpi", marks=needs_mpi),
        pytest.param("torch", marks=[needs_torch, pytest.mark.exhaustive]),
    ],
)


def on(backend: str, run: Program, ranks: int) -> Program:
    """`run` with a backend."""
    return {"devices": run, "mpi": partial(mpi, ranks), "torch": partial(torchrun, ranks)}[backend]


def assert_report(example: str, done: "subprocess.CompletedProcess[str]") -> None:
    assert done.returncode == 0, done.stdout + done.stderr
    report = json.loads(done.stdout)
    found = [(e["kind"], e["group_size"], e["bytes_moved"]) for e in report["collectives"]]
    assert found == EXPECTED[example]
    assert report["totals"]["bytes_moved"] == sum(each[2] for each in EXPECTED[example])
    assert report["totals"]["count"] == len(EXPECTED[example])
    assert report["devices"] == DEVICES[example]
    assert report["check"]["passed"]


def test_every_example_has_its_expectation() -> None:
    assert {path.stem for path in (ROOT / "examples").glob("*.mlir")} == set(EXPECTED)


@pytest.mark.parametrize("example", sorted(EXPECTED))
def test_devices_in_process(example: str, run: Program) -> None:
    assert_report(example, run(f"examples/{example}.mlir", "--check", "--json"))


FORMS = {
    "propagated": ["--propagate"],
    "distributed": ["--propagate", "--materialize"],
    "local": ["--spmd"],
    "lowered": ["--spmd", "--lower"],
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("example", ["mlp_1d", "mlp_2d_mesh", "pipeline_mlp"])
def test_every_form_runs(
    example: str, form: str, opt: Program, run: Program, tmp_path: Path
) -> None:
    file = tmp_path / "in.mlir"
    source = f"examples/{example}.mlir"
    assert opt(source, *FORMS[form], "-o", file).returncode == 0
    assert_report(example, run(file, "--check", "--json", "--reference", source))


@needs_mpi
@pytest.mark.parametrize("example", samples(most=8))
def test_mpi_ranks(example: str) -> None:
    done = mpi(DEVICES[example], f"examples/{example}.mlir", "--check", "--json")
    assert_report(example, done)


@needs_torch
@pytest.mark.parametrize("example", samples(most=4))
def test_torchrun(example: str) -> None:
    done = torchrun(DEVICES[example], f"examples/{example}.mlir", "--check", "--json")
    assert_report(example, done)


MAXIMUM = """
shard.grid @g(shape = 2)
func.func @main(%x: tensor<4x2xf32, #mesh.shard<@g, [[], [0]]>>) -> tensor<4xf32> {
  %least = arith.constant dense<0xFF800000> : tensor<4xf32>
  %0 = linalg.reduce {arith.maximumf} ins(%x : tensor<4x2xf32, #mesh.shard<@g, [[], [0]]>>)
                                      outs(%least : tensor<4xf32>) dimensions = [1]
  return %0 : tensor<4xf32>
}
"""


@BACKENDS
def test_the_maximum_of_a_nan_and_a_number_is_a_nan_everywhere(
    backend: str, run: Program, tmp_path: Path
) -> None:
    program, inputs = tmp_path / "in.mlir", tmp_path / "in.npz"
    program.write_text(MAXIMUM)
    np.savez(inputs, arg0=np.array([[np.nan, 1], [1, np.nan], [2, 3], [-1, -2]], np.float32))
    done = on(backend, run, 2)(str(program), f"--inputs={inputs}", "--check")
    assert done.returncode == 0, done.stderr


LAST_DIFFERS = """
shard.grid @g(shape = 2)
func.func @main(%x: tensor<3x2xf32> {mesh.sharding = #mesh.shard<@g, [[], [0]]>})
    -> (tensor<3x2xf32> {mesh.sharding = #mesh.shard<@g, [[], [0]]>}) {
  %y = math.absf %x : tensor<3x2xf32>
  %zero = stablehlo.constant dense<0.0> : tensor<f32>

  %z = "stablehlo.reduce_window"(%y, %zero) <{window_dimensions = array<i64: 1, 2>,
      padding = dense<[[0, 0], [1, 0]]> : tensor<2x2xi64>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %sum = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %sum : tensor<f32>
  }) {mesh.sharding_rule = "([a, b], []) -> ([a, b])"}
    : (tensor<3x2xf32>, tensor<f32>) -> tensor<3x2xf32>
  return %z : tensor<3x2xf32>
}
"""
"""Only the second device computes another value: a rule hides what an op reads beside its shard."""


SHARDS = """
shard.grid @g(shape = 4)
func.func @main(%x: tensor<13xf32> {mesh.sharding = #mesh.shard<@g, [[0]]>},
                %k: tensor<13xi8> {mesh.sharding = #mesh.shard<@g, [[0]]>},
                %o: tensor<6xf32> {mesh.sharding =
                      #mesh.shard<@g, [[0], {offsets = [[0, 1, 1, 5, 6]]}]>})
    -> (tensor<13xf32> {mesh.sharding = #mesh.shard<@g, [[0]]>}, tensor<f32>, tensor<i8>,
        tensor<6xf32>) {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %ones = stablehlo.constant dense<-1> : tensor<i8>
  %0 = "stablehlo.reduce_window"(%x, %zero) <{window_dimensions = array<i64: 11>,
      padding = dense<5> : tensor<1x2xi64>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %s = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }) : (tensor<13xf32>, tensor<f32>) -> tensor<13xf32>
  %1 = stablehlo.reduce(%0 init: %zero) applies stablehlo.add across dimensions = [0]
    : (tensor<13xf32>, tensor<f32>) -> tensor<f32>
  %2 = stablehlo.reduce(%k init: %ones) applies stablehlo.and across dimensions = [0]
    : (tensor<13xi8>, tensor<i8>) -> tensor<i8>
  %3 = stablehlo.negate %o : tensor<6xf32>
  return %0, %1, %2, %3 : tensor<13xf32>, tensor<f32>, tensor<i8>, tensor<6xf32>
}
"""
"""Shards of unequal sizes, halos from two devices away, bits that are joined, shards at offsets."""


@BACKENDS
def test_uneven_shards(backend: str, run: Program, tmp_path: Path) -> None:
    program = tmp_path / "in.mlir"
    program.write_text(SHARDS)
    done = on(backend, run, 4)(str(program), "--check")
    assert done.returncode == 0, done.stderr
    assert "update_halo" in done.stdout


ROOTED = """
shard.grid @g(shape = 2x2)
!v = tensor<8xf32>
!h = tensor<4xf32>
!q = tensor<2xf32>
func.func @main(%x: !v) -> (!v, !v, !v, !v, !h) attributes {mesh.form = "local"} {
  %mine = shard.all_slice %x on @g grid_axes = [1, 0] slice_axis = 0 : !v -> !q
  %0 = shard.gather %mine on @g grid_axes = [1, 0] gather_axis = 0 root = [1, 0]
    : (!q) -> !v
  %all = shard.broadcast %0 on @g grid_axes = [0, 1] root = [0, 1] : (!v) -> !v
  %1 = shard.scatter %0 on @g grid_axes = [1, 0] SCATTER = 0 root = [1, 0]
    : (!v) -> !q
  %again = shard.all_gather %1 on @g grid_axes = [1, 0] gather_axis = 0 : !q -> !v
  %2 = shard.reduce %x on @g grid_axes = [0] root = [1] : (!v) -> !v
  %sum = shard.broadcast %2 on @g grid_axes = [0] root = [1] : (!v) -> !v
  %3 = shard.shift %mine on @g grid_axes = [0, 1] shift_axis = 1 offset = 1 rotate
    : !q -> !q
  %turned = shard.all_gather %3 on @g grid_axes = [1, 0] gather_axis = 0 : !q -> !v
  %row = shard.all_slice %x on @g grid_axes = [0] slice_axis = 0 : !v -> !h
  %4 = shard.shift %row on @g grid_axes = [0] shift_axis = 0 offset = -1 : !h -> !h
  %first = shard.broadcast %4 on @g grid_axes = [0] root = [0] : (!h) -> !h
  return %all, %again, %sum, %turned, %first
    : !v, !v, !v, !v, !h
}
"""
"""Shards are in the order of axis 1: a shift by one along it turns the halves of the tensor."""
ON_ONE = """
!v = tensor<8xf32>
!h = tensor<4xf32>
func.func @main(%x: !v) -> (!v, !v, !v, !v, !h) {
  %sum = arith.addf %x, %x : !v
  %a = tensor.extract_slice %x[0] [4] [1] : !v to !h
  %b = tensor.extract_slice %x[4] [4] [1] : !v to !h
  %turned = tensor.concat dim(0) %b, %a : (!h, !h) -> !v
  return %x, %x, %sum, %turned, %b
    : !v, !v, !v, !v, !h
}
"""


@BACKENDS
def test_steps_with_a_root_and_shifts(backend: str, run: Program, tmp_path: Path) -> None:
    program, whole = tmp_path / "in.mlir", tmp_path / "whole.mlir"
    program.write_text(ROOTED.replace("SCATTER", "scatter_dim"))
    whole.write_text(ON_ONE)
    done = on(backend, run, 4)(str(program), "--check", f"--reference={whole}")
    assert done.returncode == 0, done.stderr
    kinds = [line.split()[0] for line in done.stdout.splitlines()]
    assert {"gather", "broadcast", "scatter", "reduce", "shift"} <= set(kinds)


AVERAGE = """
shard.grid @g(shape = 2)
func.func @main(%x: tensor<3xf32>) -> tensor<3xf32> attributes {mesh.form = "local"} {
  %0 = shard.all_reduce %x on @g grid_axes = [0] reduction = average
    : tensor<3xf32> -> tensor<3xf32>
  return %0 : tensor<3xf32>
}
"""


def test_averages(run: Program, tmp_path: Path) -> None:
    """Of equal parts it is any of them."""
    program, whole = tmp_path / "in.mlir", tmp_path / "whole.mlir"
    program.write_text(AVERAGE)
    whole.write_text(
        "func.func @main(%x: tensor<3xf32>) -> tensor<3xf32> {\nreturn %x : tensor<3xf32>\n}\n"
    )
    done = run(str(program), "--check", f"--reference={whole}")
    assert done.returncode == 0, done.stderr


@needs("mpi", "torch")
def test_ranks_agree_on_the_first_op_that_differs(run: Program, tmp_path: Path) -> None:
    program = tmp_path / "in.mlir"
    program.write_text(LAST_DIFFERS)
    expected = f"{program}:8:8: error: the result of 'stablehlo.reduce_window' op on device 1 at "
    for done in (
        run(str(program), "--bisect"),
        mpi(2, str(program), "--bisect"),
        torchrun(2, str(program), "--bisect"),
    ):
        assert done.returncode == 1
        assert done.stderr.count(expected) == 1, done.stderr


@needs_mpi
@pytest.mark.parametrize("backend", ["mpi", pytest.param("mpi4py", marks=pytest.mark.exhaustive)])
def test_each_rank_runs_the_program_of_its_device(
    backend: str, opt: Program, tmp_path: Path
) -> None:
    source = "examples/pipeline_mlp.mlir"
    files = [tmp_path / f"device{rank}.mlir" for rank in range(4)]
    command = [beside_python("mpiexec")]
    for rank, file in enumerate(files):
        assert opt(source, "--spmd", f"--pick-device=rank={rank}", "-o", file).returncode == 0
        run = [sys.executable, *RUN, str(file), f"--backend={backend}"]
        separator = [":"] if rank else []
        command += [*separator, "-n", "1", *run, "--check", f"--reference={source}"]
    done = run_child(command)
    assert done.returncode == 0, done.stderr
    assert "check passed" in done.stdout
    swapped = [str(files[1]) if each == str(files[0]) else each for each in command]
    done = run_child(swapped)
    assert done.returncode == 1
    assert "error: this is the program of device 1 alone: start it as rank 1 of 4" in done.stderr


@needs_torch
def test_torch_ranks_run_one_program(opt: Program, tmp_path: Path) -> None:
    file = tmp_path / "device.mlir"
    assert opt("examples/mlp_1d.mlir", "--spmd", "--pick-device", "-o", file).returncode == 0
    done = torchrun(2, str(file))
    assert done.returncode == 1
    assert "error: torch ranks make device groups together" in done.stderr


@needs_mpi
def test_a_wrong_number_of_mpi_ranks_is_refused_by_all() -> None:
    done = mpi(3, "examples/megatron.mlir", "--check")
    assert done.returncode == 1
    message = "error: 3 MPI ranks are running, but the grid has 4 devices: start 4"
    message += ", by mpiexec -n 4 shard-run ..."
    assert done.stderr.splitlines().count(message) == 1
    assert "Traceback" not in done.stderr


@needs_torch
def test_a_wrong_number_of_torch_ranks_is_refused_by_all() -> None:
    done = torchrun(3, "examples/megatron.mlir", "--check")
    assert done.returncode == 1
    message = "error: 3 torch ranks are running, but the grid has 4 devices: start 4"
    message += ", by torchrun --nproc-per-node=4 --no-python shard-run ..."
    assert done.stderr.splitlines().count(message) == 1


@needs_torch
def test_the_torch_backend_wants_its_launcher(run: Program) -> None:
    done = run("examples/mlp_1d.mlir", "--backend=torch")
    assert done.returncode == 1
    assert done.stderr.startswith("error: the torch backend needs a launcher: torchrun")


@pytest.mark.parametrize(
    "backend",
    ["devices", pytest.param("mpi", marks=needs_mpi), pytest.param("torch", marks=needs_torch)],
)
def test_outputs_are_the_global_ones_on_every_backend(
    backend: str, run: Program, tmp_path: Path
) -> None:
    inputs = tmp_path / "inputs.npz"
    generator = np.random.default_rng(1)
    shapes = ((2, 4, 8), (8, 32), (32, 8))
    arrays = [generator.standard_normal(shape).astype(np.float32) for shape in shapes]
    np.savez(inputs, **{f"arg{i}": array for i, array in enumerate(arrays)})
    x, w1, w2 = arrays
    expected = np.maximum(x @ w1, 0) @ w2
    files = ["examples/mlp_1d.mlir", f"--inputs={inputs}", f"--outputs={tmp_path / 'out.npz'}"]
    done = on(backend, run, 2)(*files)
    assert done.returncode == 0, done.stderr
    with np.load(tmp_path / "out.npz") as outputs:
        np.testing.assert_allclose(outputs["result0"], expected, rtol=1e-4, atol=1e-4)
