"""The lit suite, and that its check lines are ones that FileCheck acts on."""

import re
import shlex
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest
from lit import Test
from lit.discovery import find_tests_for_inputs
from lit.LitConfig import LitConfig
from lit.worker import _execute

from shard_dialect.ir.sdy.sdy_spelling import pretty_edits
from tests import extras
from tests.forks import TORCHRUN, WITH_TORCH, Forks
from tests.runtime.launching import launches

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


def marks(path: Path) -> list[pytest.MarkDecorator]:
    """A file that wants an extra runs in an environment that has it, and so once."""
    starts_ranks = "-on-4-ranks" in path.read_text()
    return [pytest.mark.slow] * starts_ranks + [pytest.mark.extra] * bool(required(path))


Suite = tuple[LitConfig, dict[Path, Test.Test], Callable[[], None]]
"""Its configuration, its tests, and what starts the servers of ranks, which few tests want."""


def _command(commands: dict[str, list[str]], module: str, **_: str) -> list[str]:
    return commands[module]


@pytest.fixture(scope="module")
def suite() -> Iterator[Suite]:
    """As lit finds it; its programs are forks."""
    with Forks() as forks, Forks([TORCHRUN]) as torchrun, Forks([WITH_TORCH]) as ranks:
        params = {module: shlex.join(command) for module, command in forks.commands.items()}
        rank_commands = {**torchrun.commands, **ranks.commands}
        for launch in launches():
            if launch.backend == "torch":
                run = ("-m", "shard_dialect.run", "--backend=torch")
                command = launch.forks(
                    4, *run, command_of=lambda module, **_: rank_commands[module]
                )
                params[launch.backend] = shlex.join(command)
        config = LitConfig("lit", [], "note", False, False, [], False, False, False, None, params)
        found = find_tests_for_inputs(config, [str(ROOT / "tests" / "lit")])
        environment = found[0].config.environment
        forks.start(environment)

        @cache
        def start_ranks() -> None:
            torchrun.start(environment)
            ranks.start({**environment, "OMP_NUM_THREADS": "1"})  # as torchrun has it

        yield config, {Path(each.getSourcePath()): each for each in found}, start_ranks


def test_lit_finds_all_files(suite: Suite) -> None:
    assert set(suite[1]) == set(FILES)


@pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning")  # lit's own pipes
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.whole
@pytest.mark.parametrize(
    "path",
    [pytest.param(path, marks=marks(path)) for path in FILES],
    ids=name,
)
def test_a_file_passes(path: Path, suite: Suite) -> None:
    config, tests, start_ranks = suite
    if "%torch-on-4-ranks" in path.read_text() and not extras.missing(["torch"]):
        start_ranks()
    result = _execute(tests[path], config)
    if wanted := extras.of_features(required(path)):
        assert result.code is Test.UNSUPPORTED
        extras.skip_without(wanted)
    assert result.code is Test.PASS, result.output


def test_files_that_jaxlib_reads_say_so() -> None:
    for path in FILES:
        text = path.read_text()
        is_read_by_it = pretty_edits(text) is None or "--backend=xla" in text
        assert is_read_by_it == ("jaxlib" in required(path)), path


def test_check_lines_have_prefixes_that_are_used() -> None:
    for path in FILES:
        text = path.read_text()
        prefixes = set(re.findall(r"--check-prefix=(\w+)", text)) | {"RUN"}
        if re.search(r"filecheck %s(?! *(--input-file=\S+ *)?--check-prefix)", text):
            prefixes.add("CHECK")
        found = {match.group(1) for match in DIRECTIVE.finditer(text)} - {"REQUIRES"}
        assert found == prefixes, path


def test_directives_are_those_that_filecheck_knows() -> None:
    for path in FILES:
        suffixes = {match.group(2) for match in DIRECTIVE.finditer(path.read_text())}
        assert suffixes <= KNOWN, path


def test_brackets_that_mean_themselves_are_escaped() -> None:
    for path in FILES:
        for line in path.read_text().splitlines():
            match = DIRECTIVE.search(line)
            if match and match.group(1) != "RUN" and "{LITERAL}" not in line:
                assert not re.search(r"\[\[(?![A-Z$#])", line), (path, line)
