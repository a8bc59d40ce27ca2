"""The Python programs of examples/ end well, each in a process of its own."""

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import shard_dialect as sd
from tests.conftest import CHILD, ROOT, run_child
from tests.extras import needs

EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
LIBRARY = ROOT / "examples" / "library"
FOR_AUTHORS = sorted(LIBRARY.glob("*.py"))
PUBLIC = ("shard_dialect", "shard_dialect.bindings", "shard_dialect.testing")
OF_TORCH = ["fsdp2_torch", "generate_torch", "llama_torch", "tensor_parallel_torch"]
"""Examples that `tests/torch` runs, to compare what they say."""


def extras_of(path: Path) -> list[str]:
    """The extras that an example's first lines say to install."""
    head = path.read_text().partition('"""\n')[0]
    return re.findall(r"shard-dialect\[(\w+)\]", head)


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(each, id=each.stem, marks=needs(*extras_of(each)))
        for each in (*EXAMPLES, *FOR_AUTHORS)
        if each.stem not in OF_TORCH
    ],
)
def test_example_runs(path: Path, tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    environment.pop("XLA_FLAGS")  # as a user's is: the example itself asks for devices
    command = [sys.executable, str(path)]
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_example_is_short(path: Path) -> None:
    assert len(path.read_text().splitlines()) <= 62


@pytest.mark.parametrize(
    "path", [*FOR_AUTHORS, LIBRARY / "plugin" / "doubling.py"], ids=lambda path: path.stem
)
def test_examples_for_authors_are_short_and_use_public_names(path: Path) -> None:
    text = path.read_text()
    assert len(text.splitlines()) <= 60
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom) and node.module:
            assert not node.module.startswith("shard_dialect") or node.module in PUBLIC
        is_ours = isinstance(node, ast.Attribute) and ast.unparse(node.value) == "sd"
        if is_ours and isinstance(node, ast.Attribute):
            assert node.attr in (*sd.__all__, "jax", "torch")


def bare(text: str) -> str:
    """Without spaces: in a page, parts of functions are not indented."""
    return "".join(text.split())


def test_the_tutorial_shows_what_the_examples_do() -> None:
    """Each block of Python is a part of the example that its section names."""
    page = (ROOT / "docs" / "building-on-it.md").read_text()
    named = set()
    for section in page.split("\n## ")[1:]:
        files = re.findall(r"`(examples/library/[\w/.]+)`", section)
        texts = [(ROOT / each).read_text() for each in files if (ROOT / each).is_file()]
        named |= set(files)
        for block in re.findall(r"```(?:python|mlir|toml)\n(.*?)```", section, re.DOTALL):
            assert any(bare(block) in bare(text) for text in texts), block
    assert {str(each.relative_to(ROOT)) for each in FOR_AUTHORS} <= named


def test_a_lit_suite_of_an_author() -> None:
    done = run_child([sys.executable, "-m", "lit.main", "-v", str(LIBRARY / "lit_suite")])
    assert done.returncode == 0, done.stdout + done.stderr


DOORS = [
    "opt --count-doubles --spmd --prove",
    "opt --auto=objective=peace,plans=3,device-model=abacus",
    "opt --pass-pipeline=builtin.module(spmd{objective=time,device-model=abacus})",
    "opt --spmd --emit-python=mpi4py",
    "report --device-model=abacus",
    "report --what-if=x=[[],[0]] --device-model=abacus",
    "run --check --reference-by=doubler",
    "run --backend=doubler --check",
    "run --backend=doubler --bisect --reference-by=doubler",
]


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """An environment with the plugin, as pip installs it."""
    site = tmp_path_factory.mktemp("site")
    (site / "doubling.py").symlink_to(LIBRARY / "plugin" / "doubling.py")
    folder = site / "doubling-1.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: doubling\nVersion: 1.0\n")
    (folder / "entry_points.txt").write_text("[shard_dialect.plugins]\ndoubling = doubling\n")
    return {**os.environ, **CHILD, "PYTHONPATH": f"{ROOT}{os.pathsep}{site}"}


@pytest.mark.parametrize("door", DOORS)
def test_an_installed_plugin_works_at_each_door(door: str, installed: dict[str, str]) -> None:
    program, *arguments = door.split()
    command = [sys.executable, "-m", f"shard_dialect.{program}"]
    command += [str(LIBRARY / "plugin" / "doubled.mlir"), *arguments]
    done = subprocess.run(command, env=installed, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr


def test_an_installed_plugin_works_in_python(installed: dict[str, str]) -> None:
    text = f"""
import pathlib
import shard_dialect as sd
module = sd.parse(pathlib.Path({str(LIBRARY / "plugin" / "doubled.mlir")!r}))
for backend in ("devices", "doubler"):
    assert sd.compile(module, backend).check(judge="doubler").passed
assert sd.report(module, device_model="abacus").schedule.total > 1
assert sd.auto(module, objective="peace", device_model="abacus", plans=3).costs.bytes == 0
"""
    done = subprocess.run(
        [sys.executable, "-c", text], env=installed, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stdout + done.stderr
