"""What is printed for people fits their terminal, and is whole where it is piped."""

import sys

from shard_dialect.cli.printing import fitted
from tests.conftest import run_child

PROGRAM = "examples/megatron.mlir"
COLUMNS = 60


def piped(*arguments: str) -> str:
    return run_child([sys.executable, "-m", "shard_dialect.report", *arguments]).stdout


def at_a_terminal(*arguments: str) -> str:
    command = [sys.executable, "-m", "shard_dialect.report", *arguments]
    spawn = f"import pty, sys; sys.exit(pty.spawn({command!r}))"
    done = run_child(["env", f"COLUMNS={COLUMNS}", sys.executable, "-c", spawn])
    assert done.returncode == 0, done.stdout
    return done.stdout.replace("\r\n", "\n")


def test_no_line_is_longer_than_the_terminal() -> None:
    whole = piped(PROGRAM)
    assert max(map(len, whole.splitlines())) > COLUMNS
    shown = at_a_terminal(PROGRAM)
    assert max(map(len, shown.splitlines())) <= COLUMNS
    assert shown == "".join(f"{fitted(each, COLUMNS)}\n" for each in whole.splitlines())


def test_json_is_not_wrapped() -> None:
    assert at_a_terminal(PROGRAM, "--json") == piped(PROGRAM, "--json")
