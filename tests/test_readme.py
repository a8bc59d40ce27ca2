"""What the README shows is what its commands do, line by line as they stand."""

import os
import re
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import ROOT, Program, run_child
from tests.extras import needs

FIRST_RUN = re.compile(
    r"<!-- first run -->\n```sh\n(.*?)\n```\n.*?\n((?:    [^\n]*\n)+)", re.DOTALL
)


def test_the_first_command_prints_what_is_shown(run: Program) -> None:
    match = FIRST_RUN.search((ROOT / "README.md").read_text())
    assert match is not None
    command = shlex.split(match[1].rpartition(" -m shard_dialect.run ")[2])
    shown = "".join(line.removeprefix("    ") for line in match[2].splitlines(keepends=True))
    assert run(*command).stdout == shown


SHELL = re.compile(r"### From the command line.*?```sh\n(.*?)\n```", re.DOTALL)
EXTRAS = {"--backend=xla": "jax", "--backend=mpi": "mpi", "--backend=torch": "torch"}


def command_lines() -> Iterator[object]:
    match = SHELL.search((ROOT / "README.md").read_text())
    assert match is not None
    first, *lines = filter(None, match[1].splitlines())
    for line in lines:
        marks = [needs(extra) for flag, extra in EXTRAS.items() if flag in line]
        yield pytest.param(f"{first}\n{line}", marks=marks, id=line.partition("  ")[0])


@pytest.mark.parametrize("text", list(command_lines()))
def test_each_line_for_the_shell_runs(text: str, tmp_path: Path) -> None:
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = run_child(["env", "-C", str(tmp_path), f"PATH={path}", "bash", "-ec", text])
    assert done.returncode == 0, done.stderr
    assert "error" not in done.stderr
