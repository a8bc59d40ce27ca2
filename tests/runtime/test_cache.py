"""What was compiled is loaded, exactly where nothing that it follows from has changed."""

import multiprocessing
import os
import shutil
import subprocess
import sys
import time
import warnings
from pathlib import Path

import numpy as np
import pytest

from shard_dialect.errors import ShardWarning
from shard_dialect.ir.context import make_context
from shard_dialect.ir.reading.source import Source
from shard_dialect.runtime import compile as compiling
from shard_dialect.runtime.communicators.world import InProcess
from shard_dialect.runtime.executable import Executable
from shard_dialect.runtime.program_cache import VARIABLE, Cache
from shard_dialect.runtime.random_inputs import random_inputs
from tests.conftest import ROOT, Program, at_level

EXAMPLE = ROOT / "examples" / "megatron.mlir"
UNKNOWN = ROOT / "tests" / "lit" / "run" / "unknown_op.mlir"

pytestmark = pytest.mark.skipif(shutil.which("cc") is None, reason="nothing to link with")


def compiled(cache: Cache, source: Source, entry: str | None = None) -> Executable:
    with make_context():
        return compiling.compile_sharded(source, entry, cache)


def results(executable: Executable) -> list[list[np.ndarray]]:
    program = executable.program
    inputs = random_inputs([each.global_type for each in program.arguments], 0)
    world = InProcess(program.devices)
    return world.run(executable, [program.scatter(inputs, rank) for rank in world.ranks])


def test_runs_no_pass_again_and_computes_the_same(tmp_path: Path, pipelines: list[str]) -> None:
    source = Source.read(str(EXAMPLE))
    first = results(compiled(Cache(tmp_path), source))
    assert pipelines == ["spmd", "lower"]
    again = compiled(Cache(tmp_path), source)
    assert pipelines == ["spmd", "lower"]
    assert len(again.program.calls) == 1
    for ours, before in zip(results(again), first, strict=True):
        np.testing.assert_array_equal(ours, before)


def test_a_program_of_another_level_is_another(tmp_path: Path, pipelines: list[str]) -> None:
    source = Source.read(str(EXAMPLE))
    compiled(Cache(tmp_path), source)
    with at_level(0):
        compiled(Cache(tmp_path), source)
    assert pipelines == ["spmd", "lower"] * 2


def test_a_program_may_be_loaded_more_than_once(tmp_path: Path) -> None:
    source = Source.read(str(EXAMPLE))
    first = results(compiled(Cache(tmp_path), source))
    loaded = [compiled(Cache(tmp_path), source) for _ in range(2)]
    for each in loaded:
        for ours, before in zip(results(each), first, strict=True):
            np.testing.assert_array_equal(ours, before)


@pytest.mark.parametrize("suffix", [".so", ".json"])
@pytest.mark.parametrize("damage", ["cut", "changed", "gone"])
def test_damaged_entries_are_none(
    tmp_path: Path, pipelines: list[str], suffix: str, damage: str
) -> None:
    source = Source.read(str(EXAMPLE))
    compiled(Cache(tmp_path), source)
    (file,) = tmp_path.glob(f"*{suffix}")
    data = file.read_bytes()
    file.unlink()
    if damage != "gone":
        middle = len(data) // 2
        changed = bytes([data[middle] ^ 1])
        file.write_bytes(data[:middle] + (changed + data[middle + 1 :]) * (damage == "changed"))
    compiled(Cache(tmp_path), source)
    assert pipelines == ["spmd", "lower"] * 2
    compiled(Cache(tmp_path), source)
    assert pipelines == ["spmd", "lower"] * 2


def test_what_code_follows_from_is_in_the_key(tmp_path: Path, pipelines: list[str]) -> None:
    text = EXAMPLE.read_text()
    sources = [Source.of(text, "a"), Source.of(text, "b"), Source.of(text + "\n// more\n", "a")]
    for source in sources:
        compiled(Cache(tmp_path), source)
    compiled(Cache(tmp_path), sources[0], "main")
    assert len(pipelines) == 2 * 4


PLUGIN = """
from pathlib import Path
import shard_dialect as sd
from shard_dialect.ir.bindings import ir

FACTOR = float(Path(__file__).with_name("factor.txt").read_text())

def lower(op):
    (x,) = op.operands
    number = ir.FloatAttr.get(x.type.element_type, FACTOR)
    dense = ir.DenseElementsAttr.get_splat(x.type, number)
    factor = ir.Operation.create("arith.constant", [x.type], attributes={"value": dense}).result
    return [ir.Operation.create("arith.mulf", [x.type], [x, factor]).result]

@sd.sharding_rule("my.scale", lowering=lower)
def scale(query):
    return sd.ShardingRule.einsum("i->i", query.operands, query.results)

sd.register_dialect("my", "irdl.dialect @my { irdl.operation @scale {"
    "%any = irdl.any irdl.operands(x: %any) irdl.results(y: %any) } }")
"""


def test_nothing_is_kept_with_a_plugin_which_may_read_other_files(tmp_path: Path) -> None:
    program, plugin, result = (tmp_path / name for name in ("a.mlir", "mine.py", "y.npz"))
    program.write_text(
        "shard.grid @g(shape = 2)\n"
        "func.func @main(%x: tensor<4xf32> {mesh.sharding = #mesh.shard<@g, [[0]]>})"
        ' -> tensor<4xf32> {\n  %0 = "my.scale"(%x) : (tensor<4xf32>) -> tensor<4xf32>\n'
        "  return %0 : tensor<4xf32>\n}\n"
    )
    plugin.write_text(PLUGIN)
    np.savez(tmp_path / "x.npz", x=np.ones(4, np.float32))
    command = [str(program), f"--load-plugin={plugin}", f"--inputs={tmp_path / 'x.npz'}"]
    environment = {**os.environ, "SHARD_DIALECT_CACHE": str(tmp_path / "kept")}
    for factor in (2.0, 3.0):
        (tmp_path / "factor.txt").write_text(str(factor))
        subprocess.run(
            [sys.executable, "-m", "shard_dialect.run", *command, f"--outputs={result}"],
            env=environment,
            check=True,
            timeout=120,
        )
        (found,) = np.load(result).values()
        np.testing.assert_array_equal(found, np.full(4, factor, np.float32))


def test_warnings_are_given_again(tmp_path: Path) -> None:
    said = []
    for _ in range(2):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            compiled(Cache(tmp_path), Source.read(str(UNKNOWN)))
        said.append([str(each.message) for each in caught])
        assert all(isinstance(each.message, ShardWarning) for each in caught)
    assert said[0] == said[1]
    assert len(said[0]) == 1


def test_warnings_that_nobody_wanted_are_kept(tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        compiled(Cache(tmp_path), Source.read(str(UNKNOWN)))
    with pytest.warns(ShardWarning, match="no sharding rule"):
        compiled(Cache(tmp_path), Source.read(str(UNKNOWN)))


def _compile(folder: str) -> list[float]:
    found = results(compiled(Cache(Path(folder)), Source.read(str(EXAMPLE))))
    return [float(shard.sum()) for shards in found for shard in shards]


def test_many_may_compile_the_same_at_once(tmp_path: Path) -> None:
    with multiprocessing.get_context("spawn").Pool(3) as pool:
        found = pool.map(_compile, [str(tmp_path)] * 6)
    assert all(each == found[0] for each in found)
    assert sorted(each.suffix for each in tmp_path.iterdir()) == [".json", ".so"]


def test_run_keeps_what_it_compiles_unless_told_not_to(
    tmp_path: Path, run: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    assert run(EXAMPLE, "--check", "--no-cache").returncode == 0
    assert not list(tmp_path.iterdir())
    assert run(EXAMPLE, "--check").returncode == 0
    assert len(list(tmp_path.glob("*.so"))) == 1
    again = run(EXAMPLE, "--check")
    assert "check passed" in again.stdout
    assert len(list(tmp_path.glob("*.so"))) == 1
    monkeypatch.setenv(VARIABLE, "0")
    assert Cache.of_user() is None


def test_a_folder_that_cannot_be_written_to_is_none(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert results(compiled(Cache(tmp_path / "file" / "below"), Source.read(str(EXAMPLE))))


def test_what_killed_processes_left_is_removed(tmp_path: Path) -> None:
    left, begun = (tmp_path / f"shard-{digit * 16}.tmp" for digit in "01")
    for each in (left, begun):
        each.mkdir()
        (each / "code.so").touch()
    hours_ago = time.time() - 7200
    os.utime(left, (hours_ago, hours_ago))
    compiled(Cache(tmp_path), Source.read(str(EXAMPLE)))
    assert not left.exists()
    assert begun.exists()
