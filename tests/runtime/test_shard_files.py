"""Ranks read their own shards of the inputs, and write their own of the outputs."""

import json
import struct
from collections.abc import Callable, Mapping
from pathlib import Path
from subprocess import CompletedProcess

import numpy as np
import pytest

import shard_dialect as sd
from shard_dialect.runtime.array_files import arrays_in
from tests.conftest import Program, run_child
from tests.extras import launched
from tests.runtime.launching import Launch

pytestmark = pytest.mark.usefixtures("unoptimized")

Arrays = Mapping[str, np.ndarray]
ROWS, RANKS = 7, 4
PROGRAM = """
shard.grid @g(shape = 2x2)
func.func @main(%x: tensor<{rows}x{columns}xf32> {{mesh.sharding = #mesh.shard<@g, [[0], [1]]>}},
                %y: tensor<{columns}xf32>)
    -> (tensor<{rows}x{columns}xf32> {{mesh.sharding = #mesh.shard<@g, [[0], [1]]>}},
        tensor<f32>) {{
  %zero = arith.constant dense<0.0> : tensor<f32>
  %e = tensor.empty() : tensor<{rows}x{columns}xf32>
  %z = linalg.generic {{indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (j)>,
                                        affine_map<(i, j) -> (i, j)>],
                       iterator_types = ["parallel", "parallel"]}}
      ins(%x, %y : tensor<{rows}x{columns}xf32>, tensor<{columns}xf32>)
      outs(%e : tensor<{rows}x{columns}xf32>) {{
    ^bb0(%a: f32, %b: f32, %o: f32):
      %s = arith.addf %a, %b : f32
      linalg.yield %s : f32
  }} -> tensor<{rows}x{columns}xf32>
  %sum = linalg.reduce {{arith.addf}} ins(%x : tensor<{rows}x{columns}xf32>)
           outs(%zero : tensor<f32>) dimensions = [0, 1]
  return %z, %sum : tensor<{rows}x{columns}xf32>, tensor<f32>
}}
"""
GRID = sd.Grid("g", (2, 2))
SPLIT = {"x": [[0], [1]], "arg1": [[]]}


def save_safetensors(path: Path, arrays: Arrays) -> None:
    header, data = {}, b""
    for name, array in arrays.items():
        offsets = [len(data), len(data) + array.nbytes]
        header[name] = {"dtype": "F32", "shape": list(array.shape), "data_offsets": offsets}
        data += array.tobytes()
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def save_folder(path: Path, arrays: Arrays) -> None:
    path.mkdir()
    shards = {name: sd.scatter(each, SPLIT[name], GRID) for name, each in arrays.items()}
    for rank in range(RANKS):
        np.savez(path / f"rank{rank}.npz", **{name: each[rank] for name, each in shards.items()})


SAVES: dict[str, Callable[[Path, Arrays], object]] = {
    "in.npz": lambda path, arrays: np.savez(path, **arrays),
    "in.safetensors": save_safetensors,
    "in/": save_folder,
}


@pytest.fixture
def arrays() -> dict[str, np.ndarray]:
    x = np.arange(ROWS * 5, dtype=np.float32).reshape(ROWS, 5)
    return {"x": x, "arg1": np.ones(5, np.float32)}


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "in.mlir"
    path.write_text(PROGRAM.format(rows=ROWS, columns=5))
    return path


def right(folder: Path, arrays: Arrays) -> bool:
    found = sd.join_shards(folder)
    assert sorted(found) == ["result0", "result1"]
    np.testing.assert_array_equal(found["result0"], arrays["x"] + 1)
    return float(found["result1"]) == arrays["x"].sum()


@pytest.mark.parametrize("name", SAVES)
def test_devices(
    name: str, run: Program, program: Path, arrays: dict[str, np.ndarray], tmp_path: Path
) -> None:
    SAVES[name](tmp_path / name, arrays)
    done = run(program, f"--inputs={tmp_path / name}", f"--outputs={tmp_path}/out/", "--check")
    assert done.returncode == 0, done.stderr
    assert right(tmp_path / "out", arrays)
    assert arrays_in(str(tmp_path / "out" / "rank3.npz"))["result0"].shape == (3, 2)


def start(launch: Launch, program: Path, *options: object) -> "CompletedProcess[str]":
    command = ("-m", "shard_dialect.run", str(program), *map(str, options))
    return run_child(launch.forked(RANKS, *command))


@pytest.mark.parametrize("launch", launched("mpi", "torch"))
@pytest.mark.parametrize("name", ["in/", "in.safetensors"])
def test_ranks(
    launch: Launch, name: str, program: Path, arrays: dict[str, np.ndarray], tmp_path: Path
) -> None:
    SAVES[name](tmp_path / name, arrays)
    options = (f"--inputs={tmp_path / name}", f"--outputs={tmp_path}/out/", "--check")
    done = start(launch, program, *options)
    assert done.returncode == 0, done.stderr
    assert right(tmp_path / "out", arrays)


LARGE = (2048, 8192)
PEAK = """
import os
from shard_dialect.processes import watch

state = watch.state

def telling(name):
    if name == "done":
        text = open("/proc/self/status").read()
        peak = next(line for line in text.splitlines() if line.startswith("VmHWM"))
        open(os.environ["TEST_PEAKS"] + f"/{os.getpid()}", "w").write(peak.split()[1])
    state(name)

watch.state = telling
"""


@pytest.mark.parametrize("launch", launched("mpi"))
@pytest.mark.parametrize("name", ["in.npz", "in.safetensors"])
def test_no_rank_holds_a_whole_tensor(
    launch: Launch, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A rank holds a quarter of the argument and of the result: 16 MiB each, of 64."""
    peaks = {}
    (tmp_path / "peak.py").write_text(PEAK)
    for kind, shape in (("small", (4, 8)), ("large", LARGE)):
        folder, program = tmp_path / kind, tmp_path / f"{kind}.mlir"
        folder.mkdir()
        program.write_text(PROGRAM.format(rows=shape[0], columns=shape[1]))
        given = {"x": np.ones(shape, np.float32), "arg1": np.ones(shape[1], np.float32)}
        SAVES[name](tmp_path / name, given)
        options = (f"--inputs={tmp_path / name}", f"--outputs={tmp_path}/out/")
        monkeypatch.setenv("TEST_PEAKS", str(folder))
        done = start(launch, program, *options, f"--load-plugin={tmp_path}/peak.py")
        assert done.returncode == 0, done.stderr
        peaks[kind] = [int(each.read_text()) * 1024 for each in folder.iterdir()]
    assert len(peaks["large"]) == RANKS
    whole = 4 * LARGE[0] * LARGE[1]
    assert max(peaks["large"]) - min(peaks["small"]) < 0.9 * whole
    assert sd.join_shards(tmp_path / "out")["result0"].shape == LARGE


def test_shards_that_do_not_fit(
    run: Program, program: Path, arrays: dict[str, np.ndarray], tmp_path: Path
) -> None:
    save_folder(tmp_path / "in", arrays)
    file = tmp_path / "in" / "rank1.npz"
    place = np.array([[0, 4, 7], [0, 3, 5]])
    good = dict(np.load(file))
    cases = {
        "x has shape 3x3, expected 4x2": {**good, "x": np.ones((3, 3), np.float32)},
        "holds x; expected x, y: it lacks y": {"x": good["x"]},
        "x is [0:4 of 7, 0:3 of 5] of its tensor, expected [0:4 of 7, 3:5 of 5]": {
            **good,
            "x.place": place,
        },
    }
    for message, given in cases.items():
        np.savez(file, **given)
        done = run(program, f"--inputs={tmp_path}/in")
        assert (done.returncode, done.stderr) == (
            1,
            f"error: '{file}'{':' * (' has ' in message or ' is ' in message)} {message}\n",
        )
    file.unlink()
    done = run(program, f"--inputs={tmp_path}/in")
    assert done.stderr == f"error: cannot read '{file}': no such file or directory\n"


def test_inputs_are_not_written_over(
    run: Program, program: Path, arrays: dict[str, np.ndarray], tmp_path: Path
) -> None:
    save_folder(tmp_path / "in", arrays)
    before = (tmp_path / "in" / "rank0.npz").read_bytes()
    done = run(program, f"--inputs={tmp_path}/in", f"--outputs={tmp_path}/in/")
    assert done.stderr == f"error: '{tmp_path}/in/' would be read and written over\n"
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "rank0.npz").symlink_to(tmp_path / "in" / "rank0.npz")
    done = run(program, f"--inputs={tmp_path}/in", f"--outputs={tmp_path}/out/")
    assert "would be read and written over" in done.stderr
    assert (tmp_path / "in" / "rank0.npz").read_bytes() == before


def test_folders_of_several_runs_are_not_joined(
    run: Program, program: Path, tmp_path: Path
) -> None:
    for name in ("one", "two"):
        assert run(program, f"--outputs={tmp_path / name}/").returncode == 0
    (tmp_path / "one" / "rank2.npz").replace(tmp_path / "two" / "rank2.npz")
    with pytest.raises(sd.ShardError, match=r"two/rank2.npz' is of another run than"):
        sd.join_shards(tmp_path / "two")
    with pytest.raises(sd.ShardError, match=r"cannot read .*one/rank2.npz': no such file"):
        sd.join_shards(tmp_path / "one")


ENTRY = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}
HEADERS = {
    "no header": (b"", "it is no safetensors file: it has no header"),
    "longer than the file": (struct.pack("<Q", 99) + b"{}", "it has no header"),
    "too long": (struct.pack("<Q", 1 << 60) + b"{}", "it has no header"),
    "no JSON": ("{", "its header is no table of tensors"),
    "no object": ([], "its header is no table of tensors"),
    "no offsets": ({"x": {"dtype": "F32", "shape": [2]}}, "is no table of tensors"),
    "negative": ({"x": {**ENTRY, "shape": [-2]}}, "is no table of tensors"),
    "unknown type": ({"x": {**ENTRY, "dtype": "F8_E4M3"}}, "x has dtype F8_E4M3, expected"),
    "other size": ({"x": {**ENTRY, "shape": [3]}}, "x has 8 bytes, expected 12"),
    "past the end": ({"x": {**ENTRY, "data_offsets": [4, 12]}}, "x has 4 bytes, expected 8"),
}


@pytest.mark.parametrize(("header", "said"), HEADERS.values(), ids=HEADERS)
def test_safetensors_that_are_wrong(header: object, said: str, tmp_path: Path) -> None:
    data = header
    if not isinstance(header, bytes):
        text = (header if isinstance(header, str) else json.dumps(header)).encode()
        data = struct.pack("<Q", len(text)) + text + bytes(8)
    (tmp_path / "in.safetensors").write_bytes(data)
    with pytest.raises(sd.ShardError, match=said):
        arrays_in(str(tmp_path / "in.safetensors"))
