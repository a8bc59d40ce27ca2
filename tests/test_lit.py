"""The lit suite, and that its check lines are ones that FileCheck acts on."""

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from shard_dialect.ir.reading.jaxlib_reader import is_for_jaxlib
from tests import extras

ROOT = Path(__file__).parent.parent
FILES = sorted(
    path for path in (ROOT / "tests" / "lit").rglob("*.mlir") if path.parent.name != "Inputs"
)
DIRECTIVE = re.compile(r"//\s*([A-Z][A-Z0-9_]*)(-[A-Z]+)?(?:\{LITERAL\})?:")
KNOWN = {None, "-NEXT", "-SAME", "-NOT", "-DAG", "-LABEL", "-EMPTY", "-COUNT"}


REQUIRES = re.compile(r"// REQUIRES: (.*)")


def required(path: Path) -> list[str]:
    """The features that a file names."""
    return [each for line in REQUIRES.findall(path.read_text()) for each in line.split(", ")]


def test_the_lit_suite_passes(record_property: Callable[[str, object], None]) -> None:
    left_out = [wanted for path in FILES if (wanted := extras.of_features(required(path)))]
    for wanted in left_out:
        record_property(extras.LEFT_OUT, wanted)
    program = "from lit.main import main; main()"  # `-m lit.main` does nothing and succeeds
    command = [sys.executable, "-c", program, "-v", str(ROOT / "tests" / "lit")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=1500)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"Total Discovered Tests: {len(FILES)}\n" in done.stdout
    unsupported = re.search(r"Unsupported *: +(\d+)", done.stdout)
    assert int(unsupported[1] if unsupported else 0) == len(left_out), done.stdout


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_file_that_jaxlib_reads_says_so(path: Path) -> None:
    assert is_for_jaxlib(path.read_text()) == ("jaxlib" in required(path))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_check_line_has_a_prefix_that_is_used(path: Path) -> None:
    text = path.read_text()
    prefixes = set(re.findall(r"--check-prefix=(\w+)", text)) | {"RUN"}
    if re.search(r"filecheck %s(?! *(--input-file=\S+ *)?--check-prefix)", text):
        prefixes.add("CHECK")
    found = {match.group(1) for match in DIRECTIVE.finditer(text)} - {"REQUIRES"}
    assert found <= prefixes
    assert prefixes <= found


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_directive_is_one_that_filecheck_knows(path: Path) -> None:
    suffixes = {match.group(2) for match in DIRECTIVE.finditer(path.read_text())}
    assert suffixes <= KNOWN


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_brackets_that_mean_themselves_are_escaped(path: Path) -> None:
    for line in path.read_text().splitlines():
        match = DIRECTIVE.search(line)
        if match and match.group(1) != "RUN" and "{LITERAL}" not in line:
            assert not re.search(r"\[\[(?![A-Z$#])", line), line
