"""A compiled program that was saved runs in another process, or is refused for a reason."""

import json
import os
import sys
from pathlib import Path

import numpy as np
import pytest

import shard_dialect as sd
from shard_dialect.ir import context
from shard_dialect.ops import op_table
from shard_dialect.ops.op_table import RECORDS
from tests.conftest import run_child
from tests.extras import needs

TEXT = """
shard.grid @g(shape = 2)
func.func @twice(%x: tensor<4x5xf32> {mesh.sharding = #mesh.shard<@g, [[], [0]]>},
                 %w: tensor<5x3xf32>) -> tensor<4x3xf32> {
  %y = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
      : (tensor<4x5xf32>, tensor<5x3xf32>) -> tensor<4x3xf32>
  %z = stablehlo.add %y, %y : tensor<4x3xf32>
  return %z : tensor<4x3xf32>
}
"""
X, W = np.arange(20, dtype=np.float32).reshape(4, 5), np.ones((5, 3), np.float32)
IN_ANOTHER = """
import sys
import numpy as np
import shard_dialect as sd
program = sd.load(sys.argv[1])
x, w = np.arange(20, dtype=np.float32).reshape(4, 5), np.ones((5, 3), np.float32)
print(program(x, w).sum(), program.check().passed, program.communication().bytes_moved)
print(program.text("local").count("stablehlo.dot_general"))
"""


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    folder = tmp_path / "saved"
    sd.compile(sd.parse(TEXT)).save(folder)
    return folder


def test_another_process_runs_it(saved: Path) -> None:
    done = run_child([sys.executable, "-c", IN_ANOTHER, str(saved)])
    assert done.stdout.split() == [str(2 * (X @ W).sum()), "True", "48", "1"], done.stderr
    assert sorted(each.suffix for each in saved.iterdir()) == [".json", ".json", ".so"]


def test_it_is_refused_where_it_does_not_fit(saved: Path, tmp_path: Path) -> None:
    def refused(folder: Path, *backend: str) -> str:
        with pytest.raises(sd.ShardError) as raised:
            sd.load(folder, *backend)
        return raised.value.message.replace(f"'{folder}'", "F")

    assert refused(tmp_path / "none") == (
        "cannot load F: it is no folder that a compiled program was saved to"
    )
    assert refused(saved, "xla") == (
        'F has a program for the backend "devices", "mpi4py" or "torch", not for "xla"'
    )
    manifest = saved / "program.json"
    text = manifest.read_text()
    for what in ("processor", "system", "version of shard_dialect"):
        data = json.loads(text)
        data["made for"][what] = "another"
        manifest.write_text(json.dumps(data))
        assert refused(saved) == (
            f"cannot load F: it was compiled for another {what}: compile it here by sd.compile"
        )
    manifest.write_text(text[:40])
    assert refused(saved).startswith("cannot load F: it was damaged (")
    manifest.write_text(text)
    (code,) = saved.glob("*.so")
    cut = code.read_bytes()[:-1]
    code.unlink()  # the old one may be loaded
    code.write_bytes(cut)
    assert refused(saved) == "cannot load F: it was damaged (the library is another entry's)"
    os.chmod(saved, 0o777)
    assert refused(saved).startswith("cannot load F: others can write to F (its mode is 777)")


def test_nothing_is_overwritten(saved: Path) -> None:
    with pytest.raises(sd.ShardError, match="is not empty: save to a new folder"):
        sd.compile(sd.parse(TEXT)).save(saved)


def test_what_was_loaded_is_saved_again_while_its_file_is_there(saved: Path) -> None:
    loaded = sd.load(saved)
    loaded.save(saved.parent / "again")
    again = sd.load(saved.parent / "again")
    assert (again(X, W) == 2 * (X @ W)).all()
    (code,) = saved.glob("*.so")
    code.unlink()
    with pytest.raises(sd.ShardError, match="or the file that the program was loaded from"):
        loaded.save(saved.parent / "third")


@pytest.fixture
def _no_code_of_users(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other tests of the process may have registered rules and dialects."""
    for name in RECORDS.keys() - op_table._BUILT_IN.keys():
        monkeypatch.delitem(RECORDS, name)
    for name in filter(op_table.is_registered, [*RECORDS]):
        monkeypatch.setitem(RECORDS, name, op_table._BUILT_IN[name])
    monkeypatch.setattr(context, "_loaders", {})


@pytest.mark.usefixtures("_no_code_of_users")
def test_what_was_compiled_is_kept_in_a_folder(tmp_path: Path, pipelines: list[str]) -> None:
    for number in range(2):
        program = sd.compile(sd.parse(TEXT), cache=tmp_path / "kept")
        assert (program(X, W) == 2 * (X @ W)).all()
        program.save(tmp_path / str(number))
        assert pipelines == ["spmd", "lower"]
    assert sorted(each.suffix for each in (tmp_path / "kept").iterdir()) == [".json", ".so"]
    assert (sd.load(tmp_path / "1")(X, W) == 2 * (X @ W)).all()
    with pytest.raises(sd.ShardError, match="cache is 3: give True, or a folder"):
        sd.compile(sd.parse(TEXT), cache=3)  # type: ignore[arg-type]


def test_nothing_is_kept_with_rules_of_a_user(tmp_path: Path) -> None:
    """They may read what no key has."""
    sd.sharding_rule("kept.op")("([i]) -> ([i])")
    try:
        sd.compile(sd.parse(TEXT), cache=tmp_path / "kept")
    finally:
        RECORDS.pop("kept.op")
    assert not (tmp_path / "kept").exists()


@needs("jax")
def test_programs_of_others_are_refused(tmp_path: Path) -> None:
    with pytest.raises(sd.ShardError, match="only what our own code computes can be saved"):
        sd.compile(sd.parse(TEXT), "xla").save(tmp_path / "saved")
