"""What the README says that its first command prints is what that prints."""

import re
import shlex

from tests.conftest import ROOT, Program

FIRST_RUN = re.compile(
    r"<!-- first run -->\n```sh\n(.*?)\n```\n.*?\n((?:    [^\n]*\n)+)", re.DOTALL
)


def test_the_first_command_prints_what_is_shown(run: Program) -> None:
    match = FIRST_RUN.search((ROOT / "README.md").read_text())
    assert match is not None
    command = shlex.split(match[1].rpartition(" -m shard_dialect.run ")[2])
    shown = "".join(line.removeprefix("    ") for line in match[2].splitlines(keepends=True))
    assert run(*command).stdout == shown
