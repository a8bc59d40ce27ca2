"""Ranks that were not started alike end before anything is computed, and a line names them."""

import re
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tests.conftest import Program, ended, run_child, start_child
from tests.extras import skip_without
from tests.hostile.programs import TINY
from tests.runtime.launching import Launch, launches

pytestmark = pytest.mark.usefixtures("unoptimized")

LAUNCHES = {each.backend: each for each in launches() if "Open" not in each.name}
MPI = LAUNCHES.get("mpi")
COMPILING = "patch('shard_dialect.runtime.compile', 'run_pipeline', None)"
"""It would be an internal error to compile, or to compute, on the rank that differs."""

Start = Callable[..., tuple[int | None, str]]


@pytest.fixture
def start(tmp_path: Path) -> Start:
    (tmp_path / "in.mlir").write_text(TINY)
    for name, value in (("in", 0), ("other", 1)):
        np.savez(tmp_path / f"{name}.npz", arg0=np.full(4, value, np.float32))

    def call(launch: Launch | None, differs: str, *options: str) -> tuple[int | None, str]:
        if launch is None:
            skip_without("mpi,torch")
        program = ("-m", "tests.hostile.differing", str(tmp_path / "in.mlir"), *options)
        differs = differs.replace("TMP", str(tmp_path))
        child = start_child(launch.command(2, *program), TEST_DIFFERS=f"{COMPILING}; {differs}")
        status, _, err = ended(child, 60)
        return status, err

    return call


def the_line(result: tuple[int | None, str]) -> str:
    status, said = result
    assert status == 1, said
    found = [line for line in said.splitlines() if re.match(r"(\S+:\d+:\d+: )?error: ", line)]
    assert len(found) == 1, said
    return found[0]


OTHER = "argv[1] = 'TMP/other.mlir'; import pathlib; pathlib.Path(argv[1]).write_text"
INPUTS = ("--inputs=TMP/in.npz",)
CASES: dict[str, tuple[str, str]] = {
    "program": (f"{OTHER}({TINY!r} + '//')", r"the program is \w{16} on rank 0, \w{16} on rank 1"),
    "grid": (
        f"{OTHER}({TINY.replace('shape = 2', 'shape = 2x1')!r})",
        r"the program is \w{16} on rank 0, \w{16} on rank 1",
    ),
    "sizes": ("argv.append('--grid=2')", "--grid is not given on rank 0, 2 on rank 1"),
    "entry": ("argv.append('--entry=main')", "--entry is not given on rank 0, main on rank 1"),
    "seed": ("argv.append('--seed=7')", "--seed is 0 on rank 0, 7 on rank 1"),
    "inputs": (
        "argv[2] = '--inputs=TMP/other.npz'",
        r"the content of --inputs is \w{16} on rank 0, \w{16} on rank 1",
    ),
    "no inputs": (
        "del argv[2]",
        r"the content of --inputs is \w{16} on rank 0, not given on rank 1",
    ),
    "check": ("argv.append('--check')", "--check is not given on rank 0, True on rank 1"),
    "outputs": (
        "argv.append('--outputs=TMP/out.npz')",
        "--outputs is not given on rank 0, given on rank 1",
    ),
    "version": (
        "patch('shard_dialect', '__version__', '7')",
        r"the version of shard_dialect is \S+ on rank 0, 7 on rank 1",
    ),
    "bindings": (
        "patch('importlib.metadata', 'version', lambda _: '8')",
        r"the version of the MLIR bindings is \S+ on rank 0, 8 on rank 1",
    ),
}


@pytest.mark.parametrize(("differs", "said"), CASES.values(), ids=CASES)
def test_ranks_that_differ(start: Start, tmp_path: Path, differs: str, said: str) -> None:
    began = time.monotonic()
    line = the_line(start(MPI, differs, f"--inputs={tmp_path}/in.npz"))
    assert re.search(f"error: the ranks differ: {said}$", line), line
    assert time.monotonic() - began < 20
    assert not (tmp_path / "out.npz").exists()


@pytest.mark.parametrize("backend", ["mpi4py", "torch"])
def test_other_backends_compare_too(start: Start, backend: str) -> None:
    differs = f"{CASES['seed'][0]}; {CASES['program'][0]}"
    line = the_line(start(LAUNCHES.get(backend), differs))
    for each in ("seed", "program"):
        assert re.search(CASES[each][1], line), line


@pytest.mark.parametrize("launch", [MPI], ids=["mpi"])
def test_what_may_differ(launch: Launch | None, start: Start, tmp_path: Path) -> None:
    """Where files are, and when they were written; not all that ranks are told matters."""
    same = "import shutil, time, numpy; "
    same += "argv[1] = shutil.copy(argv[1], 'TMP/copy.mlir'); argv.append('--no-cache'); "
    same += "patch('time', 'localtime', lambda *_: (2000,) + (1,) * 8); "
    same += "numpy.savez('TMP/copy.npz', arg0=numpy.zeros(4, 'f4')); "
    same += "argv[2] = '--inputs=TMP/copy.npz'; "
    same += "from shard_dialect.passes.framework.pipeline import run_pipeline as run; "
    same += "patch('shard_dialect.runtime.compile', 'run_pipeline', run)"
    status, said = start(launch, same, f"--inputs={tmp_path}/in.npz")
    assert (status, said) == (0, "")


DEVICES = """
shard.grid @g(shape = 2)
func.func @main(%x: tensor<4xf32> {mesh.sharding = #mesh.shard<@g, [[0]]>}) -> tensor<4xf32> {
  %y = math.exp %x : tensor<4xf32>
  return %y : tensor<4xf32>
}
"""


def device_programs(opt: Program, folder: Path, texts: tuple[str, str]) -> list[Path]:
    files = [folder / f"device{rank}.mlir" for rank in range(2)]
    for rank, (file, text) in enumerate(zip(files, texts, strict=True)):
        file.write_text(text)
        done = opt(file, "--spmd", f"--pick-device=rank={rank}", "-o", file)
        assert done.returncode == 0, done.stderr
    return files


OTHER_TALK = TINY.replace("tensor<4xf32> {mesh", "tensor<4xf32> {mesh").replace(
    "arith.addf", "arith.maximumf"
)
OTHER_DEVICES = {
    "of one program": (TINY, TINY, ""),
    "another tensor": (
        TINY,
        TINY.replace("tensor<4x", "tensor<8x"),
        r"what the program takes and gives is \w{16} on rank 0, \w{16} on rank 1",
    ),
    "another collective": (
        TINY,
        OTHER_TALK,
        r"what ranks 0, 1 do together is \w{16} on rank 0, \w{16} on rank 1",
    ),
    "no collective": (
        TINY,
        DEVICES.replace(
            "tensor<4xf32> {\n", "tensor<f32> {\n  %c = arith.constant dense<0.0> : tensor<f32>\n"
        ).replace("return %y : tensor<4xf32>", "return %c : tensor<f32>"),
        r"what ranks 0, 1 do together is \w{16} on rank 0, nothing on rank 1",
    ),
}


@pytest.mark.parametrize(("first", "second", "said"), OTHER_DEVICES.values(), ids=OTHER_DEVICES)
def test_programs_of_single_devices(
    opt: Program, tmp_path: Path, first: str, second: str, said: str
) -> None:
    if MPI is None:
        skip_without("mpi,torch")
    files = device_programs(opt, tmp_path, (first, second))
    command = [*MPI.launcher]
    for rank, file in enumerate(files):
        run = [MPI.python, "-m", "shard_dialect.run", str(file), "--backend=mpi"]
        command += [*([":"] if rank else []), "-n", "1", *run]
    done = run_child(command)
    if not said:
        assert done.returncode == 0, done.stderr
        return
    assert re.search(f"error: the ranks differ: {said}$", the_line((done.returncode, done.stderr)))


def test_one_program_beside_that_of_a_device(opt: Program, tmp_path: Path) -> None:
    if MPI is None:
        skip_without("mpi,torch")
    device = device_programs(opt, tmp_path, (TINY, TINY))[1]
    whole = tmp_path / "in.mlir"
    for marked in ("", "// mesh.device\n"):
        whole.write_text(marked + TINY)
        run = [MPI.python, "-m", "shard_dialect.run", "--backend=mpi"]
        done = run_child(
            [*MPI.launcher, "-n", "1", *run, str(whole), ":", "-n", "1", *run, str(device)]
        )
        line = the_line((done.returncode, done.stderr))
        assert "the ranks differ: " in line
        assert "on rank 0, " in line
