"""The lit suite, and that its check lines are ones that FileCheck acts on."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
from lit import Test
from lit.discovery import find_tests_for_inputs
from lit.LitConfig import LitConfig
from lit.worker import _execute

from shard_dialect.ir.reading.jaxlib_reader import edits_without_jaxlib
from tests import extras
from tests.forks import Forks

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


def name(path: Path) -> str:
    return str(path.relative_to(ROOT / "tests" / "lit").with_suffix(""))


Suite = tuple[LitConfig, dict[Path, Test.Test]]


@pytest.fixture(scope="module")
def suite() -> Iterator[Suite]:
    """As lit finds it; its programs are forks."""
    with Forks() as forks:
        params = {module: shlex.join(command) for module, command in forks.commands.items()}
        config = LitConfig("lit", [], "note", False, False, [], False, False, False, None, params)
        found = find_tests_for_inputs(config, [str(ROOT / "tests" / "lit")])
        forks.start(found[0].config.environment)
        yield config, {Path(each.getSourcePath()): each for each in found}


def test_lit_finds_all_files(suite: Suite) -> None:
    assert set(suite[1]) == set(FILES)


@pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning")  # lit's own pipes
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("path", FILES, ids=name)
def test_a_file_passes(path: Path, suite: Suite) -> None:
    config, tests = suite
    result = _execute(tests[path], config)
    if wanted := extras.of_features(required(path)):
        assert result.code is Test.UNSUPPORTED
        extras.skip_without(wanted)
    assert result.code is Test.PASS, result.output


@pytest.mark.parametrize("path", FILES, ids=name)
def test_a_file_that_jaxlib_reads_says_so(path: Path) -> None:
    assert (edits_without_jaxlib(path.read_text()) is None) == ("jaxlib" in required(path))


@pytest.mark.parametrize("path", FILES, ids=name)
def test_every_check_line_has_a_prefix_that_is_used(path: Path) -> None:
    text = path.read_text()
    prefixes = set(re.findall(r"--check-prefix=(\w+)", text)) | {"RUN"}
    if re.search(r"filecheck %s(?! *(--input-file=\S+ *)?--check-prefix)", text):
        prefixes.add("CHECK")
    found = {match.group(1) for match in DIRECTIVE.finditer(text)} - {"REQUIRES"}
    assert found <= prefixes
    assert prefixes <= found


@pytest.mark.parametrize("path", FILES, ids=name)
def test_every_directive_is_one_that_filecheck_knows(path: Path) -> None:
    suffixes = {match.group(2) for match in DIRECTIVE.finditer(path.read_text())}
    assert suffixes <= KNOWN


@pytest.mark.parametrize("path", FILES, ids=name)
def test_brackets_that_mean_themselves_are_escaped(path: Path) -> None:
    for line in path.read_text().splitlines():
        match = DIRECTIVE.search(line)
        if match and match.group(1) != "RUN" and "{LITERAL}" not in line:
            assert not re.search(r"\[\[(?![A-Z$#])", line), line
