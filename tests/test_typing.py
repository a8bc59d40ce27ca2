"""Programs of users, under mypy and pyright as users run them: `py.typed`, overloads, names."""

import json
import re
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import ROOT, run_child
from tests.extras import needs

PROGRAMS = ROOT / "tests" / "typing"


def by_mypy(path: Path) -> set[int]:
    """The lines of a file, or of the files of a folder, in which mypy finds errors."""
    done = run_child(
        ["env", "-C", str(path.parent), sys.executable, "-m", "mypy", "--strict", path.name],
        timeout=300,
    )
    assert done.returncode in (0, 1), done.stderr
    return {int(line) for line in re.findall(r"^\S+:(\d+): error: ", done.stdout, re.M)}


def by_pyright(path: Path) -> set[int]:
    """The lines in which pyright finds errors."""
    python = ["--pythonpath", sys.executable]
    done = run_child(
        [sys.executable, "-m", "pyright", "--outputjson", *python, str(path)], timeout=300
    )
    assert done.returncode in (0, 1), done.stderr
    found = json.loads(done.stdout)["generalDiagnostics"]
    return {each["range"]["start"]["line"] + 1 for each in found if each["severity"] == "error"}


@needs("dev")
@pytest.mark.parametrize("checker", [by_mypy, by_pyright])
def test_programs_of_users_are_checked(checker: Callable[[Path], set[int]], tmp_path: Path) -> None:
    for path in (PROGRAMS / "user.py", PROGRAMS / "mistakes.py"):
        copy = Path(shutil.copy(path, tmp_path))
        lines = copy.read_text().splitlines()
        expected = {number for number, line in enumerate(lines, 1) if "  # " in line}
        assert checker(copy) == expected, path.name


@needs("dev")
@pytest.mark.parametrize("checker", [by_mypy, by_pyright])
def test_examples_for_authors_are_typed(
    checker: Callable[[Path], set[int]], tmp_path: Path
) -> None:
    """One of them stands for the package that has no types, torch-mlir's importer."""
    examples = [*(ROOT / "examples" / "library").rglob("*.py")]
    assert len(examples) > 10
    for path in examples:
        if path.name not in ("torch_mlir_module.py", "lit.cfg.py"):
            shutil.copy(path, tmp_path)
    assert checker(tmp_path) == set()
