"""tests/vocabulary.md has a row for each op, and for each file that tests one."""

import re
from pathlib import Path

import pytest

from shard_dialect.ir.bindings import submodule
from shard_dialect.ir.mesh import mesh_dialect
from shard_dialect.ir.sdy import ops as sdy
from tests.conftest import ROOT

LIT = ROOT / "tests" / "lit"
FOLDERS = ("dialect", "sdy")


def rows(path: Path) -> list[list[str]]:
    return [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in path.read_text().splitlines()
        if line.startswith("|") and not line.startswith("|---")
    ]


ROWS = rows(ROOT / "tests" / "vocabulary.md")


def quoted(cells: list[str]) -> set[str]:
    return {name for cell in cells for name in re.findall(r"`([^`]+)`", cell)}


NAMED = quoted([row[0] for row in ROWS])
TESTS = quoted([cell for row in ROWS for cell in row[1:3]])
HEADERS = ("op", "op or attribute")


def upstreams() -> list[str]:
    bindings = vars(submodule("dialects.shard")).values()
    names = {getattr(each, "OPERATION_NAME", None) for each in bindings}
    return sorted(name for name in names if isinstance(name, str))


def ours() -> list[str]:
    text = mesh_dialect.definition()
    return [f"mesh.{name}" for name in re.findall(r"irdl\.operation @(\w+)", text)]


@pytest.mark.parametrize("name", [*upstreams(), *ours(), *sdy._CHECKS])
def test_every_op_has_a_row(name: str) -> None:
    assert name in NAMED


def test_the_page_has_the_same_rows() -> None:
    """But for Shardy's, whose verifier's documentation says what must hold."""
    page = [row[0] for row in rows(ROOT / "docs" / "vocabulary.md")]
    assert page == [row[0] for row in ROWS][: len(page)]
    assert all("sdy" in row[0] or row[0] in ("pretty text", *HEADERS) for row in ROWS[len(page) :])


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_every_row_has_four_cells_and_tests_that_exist(row: list[str]) -> None:
    assert len(row) == 4
    assert all(row)
    for name in quoted(row[1:3]):
        assert (LIT / f"{name}.mlir").is_file(), name


@pytest.mark.parametrize("row", [row for row in ROWS if row[0] not in HEADERS], ids=lambda r: r[0])
def test_what_runs_a_row_holds_its_ops(row: list[str]) -> None:
    """Or it is a test of all of them together, as of a spelling."""
    yes, _, no = row[3].partition("no: ")
    assert yes or no
    texts = [_text(name) for name in quoted([yes])]
    for op in quoted([row[0]]):
        kind = op.partition(".")[2]
        if op.startswith(("mesh.", "shard.", "sdy.")) and texts:
            assert any(op in text or re.search(rf"\b{kind}\b", text) for text in texts), op


def _text(name: str) -> str:
    """A program, or the Python code that makes programs."""
    found = [ROOT / "tests" / f"{name}{kind}" for kind in (".mlir", ".py")]
    (path,) = [path for path in found if path.is_file()]
    return path.read_text()


@pytest.mark.parametrize("folder", FOLDERS)
def test_every_test_of_a_vocabulary_is_in_a_row(folder: str) -> None:
    files = {f"{folder}/{path.stem}" for path in Path(LIT / folder).glob("*.mlir")}
    assert files <= TESTS


def test_what_is_refused_stands_in_the_last_column() -> None:
    refused = quoted([row[2] for row in ROWS])
    printed = quoted([row[1] for row in ROWS])
    assert all(name.endswith(("_invalid", "_undefined")) for name in refused)
    assert not any(name.endswith("_invalid") for name in printed)
