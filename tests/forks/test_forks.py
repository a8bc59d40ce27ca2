"""What stands for `python -m MODULE` is the same program: input, output, end and surroundings."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tests.conftest import start_child
from tests.extras import needs
from tests.forks import ANY, CHILD, WITH_TORCH, Forks, forks_of

OPT = "shard_dialect.opt"
PLUGIN = """
import os, pathlib, signal, sys, time
fault = os.environ["TEST_FORK"]
if fault == "shows":
    print(sys.argv[1:], os.getcwd(), sys.path[0], sys.stdin.read(), os.environ.get("TEST_MORE"))
    print(sys.stdout.encoding, sys.stdout.seekable(), sys.flags.optimize)
    print(sys.argv[0], signal.getsignal(signal.SIGCHLD), file=sys.stderr)
if fault == "kills":
    os.kill(os.getppid(), signal.SIGKILL)
    time.sleep(60)  # until it is ended, too
if fault == "sleeps":
    mark = pathlib.Path(os.environ["TEST_MARK"])
    mark.with_suffix(".partial").write_text(str(os.getpid()))
    mark.with_suffix(".partial").rename(mark)
    time.sleep(600)
"""
CASES = {
    "text": ({}, ["--cse"]),
    "a wrong flag": ({}, ["--nothing"]),
    "help": ({}, ["--help"]),
    "surroundings": ({"TEST_FORK": "shows", "TEST_MORE": "é"}, ["--load-plugin=plugin.py"]),
    "a flag of Python's": (
        {"TEST_FORK": "shows", "PYTHONOPTIMIZE": "1"},
        ["--load-plugin=plugin.py"],
    ),
    "a signal": ({"TEST_FORK": "kills"}, ["--load-plugin=plugin.py"]),
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "plugin.py").write_text(PLUGIN)
    return tmp_path


def done(
    command: Sequence[str], folder: Path, environment: dict[str, str]
) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, **CHILD, **environment},
        input="module {}",
        capture_output=True,
        text=True,
        timeout=60,
    )


@pytest.mark.parametrize(("environment", "arguments"), CASES.values(), ids=CASES)
def test_a_fork_is_the_program(
    environment: dict[str, str], arguments: list[str], folder: Path, forks: Forks
) -> None:
    fork = done([*forks.commands[OPT], *arguments], folder, environment)
    cold = done([sys.executable, "-m", OPT, *arguments], folder, environment)
    assert (fork.returncode, fork.stdout, fork.stderr) == (
        cold.returncode,
        cold.stdout,
        cold.stderr,
    )


SHOWN = "import sys; print(sys.argv, __name__, sys.path[0], sys.flags.optimize)"


@pytest.mark.parametrize("python", [ANY, pytest.param(WITH_TORCH, marks=needs("torch"))])
@pytest.mark.parametrize("named", [["shown.py"], ["-m", "shown"]])
def test_a_fork_of_python_runs_any_program(python: str, named: list[str], folder: Path) -> None:
    (folder / "shown.py").write_text(f"{SHOWN}\nsys.exit(3)")
    fork, cold = (
        done([*command, *named, "-m", "more"], folder, {})
        for command in (forks_of(python), [sys.executable])
    )
    assert (fork.returncode, fork.stdout) == (cold.returncode, cold.stdout)


def test_who_is_killed_ends_its_program(folder: Path, forks: Forks) -> None:
    mark, plugin = folder / "mark", folder / "plugin.py"
    command = [*forks.commands[OPT], f"--load-plugin={plugin}"]
    client = start_child(command, TEST_FORK="sleeps", TEST_MARK=str(mark), **CHILD)
    until(mark.exists)
    program = int(mark.read_text())
    client.kill()
    client.communicate()
    until(lambda: not is_there(program))


def until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def is_there(process: int) -> bool:
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"
