"""Programs of users, under mypy and pyright as users run them: `py.typed`, overloads, names."""

import builtins
import doctest
import json
import re
import shutil
import symtable
import sys
from collections.abc import Callable, Iterator
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


OF_OTHERS = {"contributing.md": "the package's own code", "emit.md": "what is emitted"}
"""Pages whose snippets no user writes. Those of building-on-it.md are parts of the examples."""
STRICT = "# pyright: strict, " + ", ".join(
    f"{each}=false"
    for each in (
        *(f"reportUnknown{what}Type" for what in ("Member", "Variable", "Argument", "Parameter")),
        *("reportUnknownLambdaType", "reportMissingTypeStubs", "reportUntypedFunctionDecorator"),
        *("reportUnusedExpression", "reportUnusedImport", "reportUnnecessaryIsInstance"),
    )
)
"""MLIR's bindings, and some of torch and JAX, have no types; and doctests show values."""
IMPORTS = {
    "sd": "import shard_dialect as sd",
    "np": "import numpy as np",
    "jax": "import jax",
    "torch": "import torch",
}


def programs_of(page: Path) -> Iterator[str]:
    """The examples that a page goes through, as one program; and each of its other snippets.

    Of a snippet that stands alone, names that it does not define may be anything.
    """
    blocks = re.findall(r"^```python\n(.*?)^```$", page.read_text(), re.M | re.S)
    parser = doctest.DocTestParser()
    shown = [each.source for block in blocks for each in parser.get_examples(block)]
    yield "".join(shown)
    for block in blocks:
        if ">>> " not in block and "import lit" not in block:
            yield block


def with_names(text: str) -> str:
    top = symtable.symtable(text, "page", "exec")
    tables = [top]
    for table in tables:
        tables += table.get_children()
    own = {
        each.get_name()
        for each in top.get_symbols()
        if each.is_assigned() or each.is_imported() or each.is_namespace()
    }
    used = {
        each.get_name()
        for table in tables
        for each in table.get_symbols()
        if each.is_referenced() and (table is top or each.is_global())
    }
    free = sorted(used - own - set(dir(builtins)))
    lines = [IMPORTS.get(name, f"{name}: Any = anything()") for name in free]
    head = [
        STRICT,
        "# mypy: no-warn-return-any, allow-untyped-calls",
        "from typing import Any",
        "def anything() -> Any: ...",
    ]
    return "\n".join([*head, *lines, text])


@needs("dev", "jax", "torch")
@pytest.mark.parametrize("checker", [by_mypy, by_pyright])
def test_snippets_of_the_documents_are_typed(
    checker: Callable[[Path], set[int]], tmp_path: Path
) -> None:
    count = 0
    for page in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))):
        if page.name in OF_OTHERS or page.name == "building-on-it.md":
            continue
        for number, text in enumerate(filter(None, programs_of(page))):
            name = f"page_{page.stem.replace('-', '_').lower()}_{number}.py"
            (tmp_path / name).write_text(with_names(text))
            count += 1
    assert count > 12
    assert checker(tmp_path) == set()
