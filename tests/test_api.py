"""`import shard_dialect` as a library, beyond the examples in docs/library.md."""

import importlib
import inspect
import pydoc
import re
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import shard_dialect as sd
from shard_dialect.ir.bindings import ir
from tests.conftest import ROOT
from tests.extras import needs

REMARK = """
module attributes {transform.with_named_sequence} {
  transform.named_sequence @__transform_main(%root: !transform.any_op) {
    transform.debug.emit_remark_at %root, "here" : !transform.any_op
    transform.yield
  }
}
"""


def test_importing_the_package_imports_nothing_else() -> None:
    program = "import shard_dialect, sys; print([m for m in sys.modules if 'shard_' in m])"
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == "['shard_dialect']"


def test_the_version_is_told_in_three_places_alike() -> None:
    project = re.search(r'^version = "(.*)"$', (ROOT / "pyproject.toml").read_text(), re.M)
    changes = re.search(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), re.M)
    assert project is not None
    assert changes is not None
    assert project[1] == changes[1] == sd.__version__


def test_every_public_name_is_there() -> None:
    from shard_dialect import api

    assert sorted(sd.__all__) == sorted(api.__all__)
    assert all(getattr(sd, name) is getattr(api, name) for name in sd.__all__)
    assert set(sd.__all__) <= set(dir(sd))
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = sd.nothing  # type: ignore[attr-defined]


def test_the_page_of_public_names_is_up_to_date(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "docs"))
    page = (ROOT / "docs" / "public.md").read_text()
    notice = page.partition("\n")[0]
    assert importlib.import_module("public_names").public_page(notice) == page


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("jax", marks=needs("jax")),
        pytest.param("torch", marks=needs("torch")),
        "testing",
    ],
)
def test_public_names_of_other_modules_are_there(name: str) -> None:
    module = importlib.import_module(f"shard_dialect.{name}")
    assert all(hasattr(module, each) for each in module.__all__)


@pytest.mark.parametrize("name", ["run", "report", "prove"])
def test_the_program_and_the_function_have_one_name(name: str) -> None:
    program = importlib.import_module(f"shard_dialect.{name}")
    assert program is sys.modules[f"shard_dialect.{name}"]
    assert callable(program.main)
    assert getattr(sd, name) is getattr(importlib.import_module("shard_dialect.api"), name)


def test_help_shows_signatures() -> None:
    shown = pydoc.plain(pydoc.render_doc(sd.run))
    assert "backend: 'Backend' = 'devices'" in shown
    assert "entry: 'str | None' = None" in shown
    assert list(inspect.signature(sd.report).parameters)[:2] == ["module", "entry"]


def test_a_grid_is_of_its_class() -> None:
    grid = sd.Grid("g", [2, 4], axes=["data", "model"])
    assert isinstance(grid, sd.Grid)
    assert grid == sd.Grid("g", (2, 4), ("data", "model"))
    assert (grid.shape, grid.axes) == ((2, 4), ("data", "model"))
    assert eval(repr(grid), {"Grid": sd.Grid}) == grid
    module = sd.parse(ROOT / "examples" / "mlp_1d.mlir")
    assert all(isinstance(each.grid, sd.Grid) for each in sd.report(module).tensors)


def test_a_file_is_read_by_its_path() -> None:
    module = sd.parse(ROOT / "examples" / "mlp_1d.mlir")
    sd.run_pipeline(module, "spmd")
    assert "shard.reduce_scatter" in sd.to_text(module)
    assert sd.communication(module).bytes_moved == sd.communication(module, "main").bytes_moved


def test_errors_have_the_place_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "in.mlir"
    path.write_text(
        "shard.grid @g(shape = 2)\n"
        "func.func @main(%x: tensor<5xf32>, %y: tensor<4xf32>) -> tensor<5xf32> {\n"
        "  return %x : tensor<5xf32>\n"
        "}\n"
    )
    module = sd.parse(path)
    sd.run_pipeline(module, "propagate")
    with pytest.raises(sd.ShardError, match="propagated form") as caught:
        sd.run_pipeline(module, "partition")
    assert caught.value.location == f"{path}:2:1"
    assert f'loc("{path}":3:3)' in sd.to_text(module, locations=True)
    assert '"func.return"' in sd.to_text(module, generic=True)


def test_all_errors_of_a_module_are_there_with_their_notes() -> None:
    text = "func.func @{0}(%x: i32) -> i64 {{ return %x : i32 }}\n"
    with pytest.raises(sd.ShardError) as caught:
        sd.parse(text.format("f") + text.format("g"))
    first, second = caught.value.diagnostics
    assert (first.location, second.location) == ("<string>:1:32", "<string>:2:32")
    assert first.notes[0].severity == "note"
    assert str(caught.value).count(": error: ") == 2


def test_remarks_of_mlir_are_python_warnings() -> None:
    module = sd.parse(REMARK)
    with pytest.warns(sd.ShardWarning, match=r"<string>:2:1: remark: here"):
        sd.run_pipeline(module, "transform-interpreter")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(sd.ShardWarning):
            sd.run_pipeline(module, "transform-interpreter")


def test_a_name_is_given_to_one_pass() -> None:
    class Cse(sd.Pass):
        """Ours."""

        name = "propagate"

        def rewrite(self, module: ir.Operation) -> None: ...

    with pytest.raises(sd.ShardError, match="there is a pass 'propagate' already"):
        sd.register_pass(Cse)


def test_a_dialect_that_is_there_cannot_be_defined_again() -> None:
    from shard_dialect.ir import context

    sd.register_dialect("func", "irdl.dialect @func {}")
    try:
        with pytest.raises(sd.ShardError, match="there is a dialect 'func' already"):
            sd.make_context()
        sd.register_dialect("func", "no IRDL")
        sd.register_dialect("test_wrong", "no IRDL")
        del context._loaders["func"]
        with pytest.raises(sd.ShardError, match="cannot load dialect 'test_wrong': "):
            sd.make_context()
    finally:
        context._loaders.pop("func", None)
        context._loaders.pop("test_wrong", None)


def test_communication_names_axes_and_counts_equal_rows() -> None:
    found = sd.communication(sd.parse(ROOT / "examples" / "slow_ffn.mlir"))
    table = str(found).splitlines()
    assert table[1].split()[:4] == ["all_to_all", "x2", "model", "4"]
    assert [each.kind for each in found.entries] == ["all_to_all"] * 3 + ["all_reduce"]
    assert table[-1].split() == ["total", str(sum(each.bytes_moved for each in found.entries))]


ANNOTATED = """
shard.grid @g(shape = 2)
func.func @main(%x: tensor<4x8xf32> {mesh.sharding = #mesh.shard<@g, [[0]]>}) -> tensor<4x8xf32> {
  %0 = math.tanh %x : tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}
"""


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (lambda m: sd.compile(m).text("lokal"), "the form 'lokal' is none of annotated, "),
        (lambda m: sd.compile(m).text("lokal"), ": did you mean 'local'?"),
        (lambda m: sd.compile(m).check(judge="me"), "the judge 'me' is none of xla, upstream, "),
        (lambda m: sd.report(m, allocator="me"), "the allocator 'me' is none of unfused, "),
        (lambda m: sd.report(sd.compile(m)), "is no module: its report is .report"),
        (lambda m: sd.auto(m, grid=8), "grid is 8: give a list, as (2, 4)"),
        (lambda m: sd.Grid("g", 8), "the shape of grid @g is 8: give a list, as (2, 4)"),
        (lambda m: sd.Grid("g", "2x4"), "the shape of grid @g is '2x4': give a list, as (2, 4)"),
        (lambda m: sd.Grid("g", (2.5,)), "grid @g has size 2.5 on axis 0: sizes are integers"),
        (lambda m: sd.Grid("g", (2, 2), axes="ab"), "axes of grid @g is 'ab': give a list"),
        (lambda m: sd.Grid("g", (2,), device_ids=1), "device_ids of grid @g is 1: give a list"),
        (lambda m: sd.scatter([1], [0], sd.Grid("g", (2,))), "split axes is 0: give a list, as"),
        (lambda m: sd.Sharding("g", [[0], [1]]), "are no tuple of tuples of axes, as ((0,), ())"),
        (lambda m: sd.Sharding("g", 3), "split axes 3 are no tuple of tuples of axes"),
        (lambda m: sd.parse(3), "sd.parse takes a text or a pathlib.Path, not a builtins.int"),
    ],
)
def test_what_is_possible_is_said(call: Callable[[Any], object], expected: str) -> None:
    with pytest.raises(sd.ShardError, match=re.escape(expected)):
        call(sd.parse(ANNOTATED))


def test_sizes_of_a_grid_may_be_numpys() -> None:
    assert sd.Grid("g", np.array([2, 4])).size == 8
