"""What stands around an emitted program: names, inputs and outputs, the number of ranks."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from shard_dialect.backends.python.python_module import TARGETS
from shard_dialect.backends.python.writer import Target
from tests.conftest import run_child
from tests.emit.test_emit_python import emit, launch_of

pytestmark = pytest.mark.usefixtures("unoptimized")

NAMED = """
shard.grid @g(shape = 1)
func.func @inputs(%x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = arith.addf %x, %x : tensor<2xf32> loc("x²")
  return %0 : tensor<2xf32>
}
"""
"""The entry is called as a variable of the file, and a value as nothing in Python is."""

TWO_GRIDS = """
shard.grid @a(shape = 2x1)
shard.grid @A(shape = 2)
func.func private @f(%x: tensor<2xf32>) -> tensor<2xf32> attributes {mesh.form = "local"} {
  %0 = shard.all_reduce %x on @a grid_axes = [0] : tensor<2xf32> -> tensor<2xf32>
  return %0 : tensor<2xf32>
}
func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> attributes {mesh.form = "local"} {
  %0 = func.call @f(%x) : (tensor<2xf32>) -> tensor<2xf32>
  %1 = shard.all_reduce %0 on @A grid_axes = [0] : tensor<2xf32> -> tensor<2xf32>
  return %1 : tensor<2xf32>
}
"""

NO_TENSOR = """
shard.grid @g(shape = 1)
func.func @main(%x: tensor<2xf32>) {
  return
}
"""

BF16 = """
shard.grid @g(shape = 2)
func.func @main(%x: tensor<4xbf16> {mesh.sharding = #mesh.shard<@g, [[0]]>}) -> tensor<4xbf16> {
  return %x : tensor<4xbf16>
}
"""


def run_emitted(
    target: Target, text: str, ranks: int, folder: Path, *arguments: str, pipeline: str = "spmd"
) -> "subprocess.CompletedProcess[str]":
    program = folder / "program.py"
    program.write_text(emit(text, target, pipeline)[0])
    command = launch_of(target).command(ranks, str(program), *arguments)
    return run_child(command[:-1])  # it has no --backend


@pytest.mark.parametrize("target", TARGETS)
def test_names_that_the_file_has_too(target: Target, tmp_path: Path) -> None:
    done = run_emitted(target, NAMED, 1, tmp_path)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("target", TARGETS)
def test_grids_that_differ_in_case(target: Target, tmp_path: Path) -> None:
    np.savez(tmp_path / "in.npz", arg0=np.array([1, 2], np.float32))
    arguments = (f"--inputs={tmp_path}/in.npz", f"--outputs={tmp_path}/out.npz")
    done = run_emitted(target, TWO_GRIDS, 2, tmp_path, *arguments, pipeline="canonicalize")
    assert done.returncode == 0, done.stderr
    assert np.load(tmp_path / "out.npz")["result0"].tolist() == [4, 8]


@pytest.mark.parametrize("target", TARGETS)
def test_no_results(target: Target, tmp_path: Path) -> None:
    done = run_emitted(target, NO_TENSOR, 1, tmp_path)
    assert done.returncode == 0, done.stderr


def test_bf16_is_read_and_written_as_run_does(tmp_path: Path) -> None:
    given = np.array([0x3F80, 0x4000, 0xBF80, 0x7F80], np.uint16).view("V2")
    np.savez(tmp_path / "in.npz", arg0=given)
    arguments = (f"--inputs={tmp_path}/in.npz", f"--outputs={tmp_path}/out.npz")
    done = run_emitted("torch", BF16, 2, tmp_path, *arguments)
    assert done.returncode == 0, done.stderr
    assert np.load(tmp_path / "out.npz")["result0"].tobytes() == given.tobytes()


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("ranks", [1, 3])
def test_another_number_of_ranks_is_refused(target: Target, ranks: int, tmp_path: Path) -> None:
    done = run_emitted(target, TWO_GRIDS, ranks, tmp_path, pipeline="canonicalize")
    assert done.returncode != 0
    assert "error: start 2 ranks: " in done.stderr


@pytest.mark.parametrize("target", TARGETS)
def test_an_argument_that_the_file_lacks_is_named(target: Target, tmp_path: Path) -> None:
    np.savez(tmp_path / "in.npz", y=np.array([1, 2], np.float32))
    done = run_emitted(target, NAMED, 1, tmp_path, f"--inputs={tmp_path}/in.npz")
    assert done.returncode != 0
    assert f"error: '{tmp_path}/in.npz' lacks x\n" in done.stderr
    assert "KeyError" not in done.stderr


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    ("given", "found"),
    [
        (np.zeros(3, np.float32), "f4 [3]"),
        (np.zeros(1, np.float32), "f4 [1]"),
        (np.zeros((2, 1), np.float32), "f4 [2, 1]"),
        (np.zeros(2), "f8 [2]"),
        (np.zeros(2, np.int32), "i4 [2]"),
    ],
)
def test_an_array_of_another_type_or_shape_is_refused(
    target: Target, given: np.ndarray, found: str, tmp_path: Path
) -> None:
    """Shards could be cut of it, with results of the expected shape."""
    np.savez(tmp_path / "in.npz", x=given)
    done = run_emitted(target, NAMED, 1, tmp_path, f"--inputs={tmp_path}/in.npz")
    assert done.returncode != 0
    assert f"error: '{tmp_path}/in.npz': x is {found}, expected f4 [2]\n" in done.stderr


def test_without_torchrun_the_error_names_it(tmp_path: Path) -> None:
    launch_of("torch")  # skips without torch
    program = tmp_path / "program.py"
    program.write_text(emit(NAMED, "torch")[0])
    done = run_child([sys.executable, str(program)])
    assert done.returncode == 1
    assert done.stderr == "error: start the ranks by torchrun, as this file's first lines show\n"
