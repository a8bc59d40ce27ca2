"""`run --backend=torch --compiler=torch`: ranks that compute with torch, and threads that do."""

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from shard_dialect.errors import ShardError
from shard_dialect.runtime.array_files import join_shards
from shard_dialect.testing import run_and_check
from tests.conftest import ROOT, Program, ended, start_child
from tests.extras import needs
from tests.programs.annotated import random_program
from tests.programs.flow import random_flow_program
from tests.programs.stablehlo import random_stablehlo
from tests.runtime.test_backends import (
    DEVICES,
    LAST_DIFFERS,
    MAXIMUM,
    ON_ONE,
    ROOTED,
    SHARDS,
    assert_report,
    samples,
    torchrun,
)

pytestmark = [needs("torch"), pytest.mark.usefixtures("unoptimized")]
TORCH = "--compiler=torch"


# In threads of this process


@pytest.mark.parametrize("path", sorted(ROOT.glob("examples/*.mlir")), ids=lambda path: path.stem)
def test_examples_in_threads(path: Path) -> None:
    assert run_and_check(path.read_text(), "spmd", compiler="torch").verdict.passed


ONE_ELEMENT = """
shard.grid @g(shape = 2)
func.func @main(%x: tensor<bf16>) -> (tensor<2x1xbf16>, tensor<1x1xbf16>) {
  %0 = stablehlo.broadcast_in_dim %x, dims = [] : (tensor<bf16>) -> tensor<2x3xbf16>
  %1 = stablehlo.slice %0 [0:2, 1:2] : (tensor<2x3xbf16>) -> tensor<2x1xbf16>
  %split = shard.sharding @g split_axes = [[0]] : !shard.sharding
  %2 = shard.shard %1 to %split : tensor<2x1xbf16>
  %whole = shard.sharding @g split_axes = [[]] : !shard.sharding
  %3 = shard.shard %2 to %whole annotate_for_users : tensor<2x1xbf16>
  %4 = stablehlo.slice %0 [0:1, 1:2] : (tensor<2x3xbf16>) -> tensor<1x1xbf16>
  return %3, %4 : tensor<2x1xbf16>, tensor<1x1xbf16>
}
"""


def test_elements_that_are_broadcast_are_sent_and_returned() -> None:
    passes = "propagate,materialize,partition"
    assert run_and_check(ONE_ELEMENT, passes, compiler="torch").verdict.passed


KINDS: dict[str, tuple[Callable[[int], str], int]] = {
    "mixed": (random_program, 12),
    "flow": (random_flow_program, 12),
    "stablehlo": (random_stablehlo, 16),
}


@pytest.mark.filterwarnings("ignore::shard_dialect.errors.ShardWarning")
@pytest.mark.parametrize("kind", KINDS)
def test_random_programs_in_threads(kind: str) -> None:
    """What is refused must say where."""
    draw, count = KINDS[kind]
    passed, places = 0, []
    for seed in range(count):
        try:
            verdict = run_and_check(draw(seed), "spmd", compiler="torch").verdict
        except ShardError as error:
            places.append(error.location)
            continue
        assert verdict.passed, f"{seed}: {verdict}"
        passed += 1
    assert passed >= count // 4
    assert all(places), places


# On ranks


@pytest.mark.parametrize("example", samples(most=4))
def test_examples_on_ranks(example: str) -> None:
    done = torchrun(DEVICES[example], f"examples/{example}.mlir", "--check", "--json", TORCH)
    assert_report(example, done)
    assert json.loads(done.stdout)["compiler"] == "torch"


def test_many_kinds_of_programs_on_four_ranks(tmp_path: Path) -> None:
    """Roots, shifts, and shards of unequal sizes with halos, bits, and offsets."""
    from shard_dialect.ir.bindings import spelled

    rooted, whole, uneven = (tmp_path / f"{name}.mlir" for name in ("rooted", "whole", "uneven"))
    rooted.write_text(ROOTED.replace("SCATTER", spelled("scatter_axis")))
    whole.write_text(ON_ONE)
    uneven.write_text(SHARDS)
    for file, *more in ((rooted, f"--reference={whole}"), (uneven,)):
        done = torchrun(4, str(file), "--check", TORCH, *more)
        assert done.returncode == 0, done.stderr
        assert "devices (torch, computed by torch)" in done.stdout


def test_the_maximum_of_a_nan_and_a_number_is_a_nan(tmp_path: Path) -> None:
    program, inputs = tmp_path / "in.mlir", tmp_path / "in.npz"
    program.write_text(MAXIMUM)
    np.savez(inputs, arg0=np.array([[np.nan, 1], [1, np.nan], [2, 3], [-1, -2]], np.float32))
    done = torchrun(2, str(program), f"--inputs={inputs}", "--check", TORCH)
    assert done.returncode == 0, done.stderr


def test_inputs_and_outputs_are_as_on_other_backends(tmp_path: Path) -> None:
    generator = np.random.default_rng(1)
    x, w1, w2 = (
        generator.standard_normal(shape).astype(np.float32)
        for shape in ((2, 4, 8), (8, 32), (32, 8))
    )
    inputs, folder = tmp_path / "in.npz", f"{tmp_path}/out/"
    np.savez(inputs, arg0=x, arg1=w1, arg2=w2)
    expected = np.maximum(x @ w1, 0) @ w2
    files = ["examples/mlp_1d.mlir", f"--inputs={inputs}", TORCH]
    done = torchrun(2, *files, f"--outputs={tmp_path}/out.npz")
    assert done.returncode == 0, done.stderr
    with np.load(tmp_path / "out.npz") as outputs:
        np.testing.assert_allclose(outputs["result0"], expected, rtol=1e-4, atol=1e-4)
    done = torchrun(2, *files, f"--outputs={folder}")
    assert done.returncode == 0, done.stderr
    joined = join_shards(folder)["result0"]
    np.testing.assert_allclose(joined, expected, rtol=1e-4, atol=1e-4)


def test_the_first_op_that_differs_is_found(tmp_path: Path) -> None:
    program = tmp_path / "in.mlir"
    program.write_text(LAST_DIFFERS)
    done = torchrun(2, str(program), "--bisect", TORCH)
    assert done.returncode == 1
    expected = f"{program}:8:8: error: the result of 'stablehlo.reduce_window' op on device 1 at "
    assert done.stderr.count(expected) == 1, done.stderr


FLOAT8 = """
shard.grid @g(shape = 1)
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.convert %x : (tensor<4xf32>) -> tensor<4xTYPE>
  %1 = stablehlo.convert %0 : (tensor<4xTYPE>) -> tensor<4xf32>
  return %1 : tensor<4xf32>
}
"""


@pytest.mark.parametrize("element", ["f8E4M3FN", "f8E5M2", "f4E2M1FN", "i4", "ui2"])
def test_elements_that_torch_does_not_compute_with_are_refused(element: str) -> None:
    with pytest.raises(ShardError, match=rf"^-:4:8: error: elements of type {element} have no "):
        run_and_check(FLOAT8.replace("TYPE", element), "spmd", compiler="torch")


# Options


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([TORCH], "--compiler=torch is for --backend=torch, not for --backend=devices"),
        ([TORCH, "--backend=xla"], "--compiler=torch is for --backend=torch, not .*=xla"),
        (["--torch-compile"], "--torch-compile is for --compiler=torch"),
    ],
)
def test_options_that_do_not_go_together(options: list[str], message: str, run: Program) -> None:
    done = run("examples/mlp_1d.mlir", *options)
    assert done.returncode == 1
    assert re.search(f"^error: {message}", done.stderr)


def compiled(folder: Path, **environment: str) -> "subprocess.CompletedProcess[str]":
    """With the caches of torch's compilers in `folder`."""
    command = [
        *(str(Path(sys.executable).parent / "torchrun"), "--standalone", "--nproc-per-node=2"),
        *("-m", "shard_dialect.run", "examples/mlp_1d.mlir", "--backend=torch", TORCH),
        *("--torch-compile", "--check"),
    ]
    child = start_child(command, TORCHINDUCTOR_CACHE_DIR=str(folder), **environment)
    status, out, err = ended(child, 300)
    return subprocess.CompletedProcess(command, status or 0, out, err)


@pytest.mark.exhaustive
def test_torch_compile(tmp_path: Path) -> None:
    done = compiled(tmp_path)
    if "No working C++ compiler" in done.stderr:
        pytest.skip("no C++ compiler, which torch.compile wants")
    assert "check passed" in done.stdout, done.stderr


def test_torch_compile_without_a_compiler_is_an_error(tmp_path: Path) -> None:
    done = compiled(tmp_path, CXX="/nonexistent/c++")
    assert done.returncode == 1
    assert "error: --torch-compile: torch.compile does not work here: " in done.stderr
