"""Shared by all tests: running the two programs as users do."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from tests import extras, slow
from tests.forks import CHILD, Forks

ROOT = Path(__file__).parent.parent
os.environ["SHARD_DIALECT_CACHE"] = "0"  # what is tested is this code, not what it made before
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # or each of a thousand children compiles it anew
sys.dont_write_bytecode = False
os.environ["SHARD_DIALECT_PROGRESS"] = "0"  # a busy machine makes any test take long
os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=16"  # of jax, in all processes
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")  # for the same reason
signal.signal(signal.SIGINT, signal.default_int_handler)  # background jobs of shells ignore it
Program = Callable[..., "subprocess.CompletedProcess[str]"]


def start_child(command: Sequence[str], **environment: str) -> "subprocess.Popen[str]":
    """Start in the repository's root, with no input; who does so bounds its time."""
    return subprocess.Popen(
        command,
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **environment},
        start_new_session=True,
    )


def ended(child: "subprocess.Popen[str]", timeout: float) -> tuple[int | None, str, str]:
    """The exit status, `None` if the child ran longer and was killed; and what was said."""
    try:
        out, err = child.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        os.killpg(child.pid, signal.SIGKILL)  # its own children too
        return None, *child.communicate()
    return child.returncode, out, err


def run_child(command: Sequence[str], timeout: float = 120) -> "subprocess.CompletedProcess[str]":
    """Run to the end, with a bound on its time."""
    status, out, err = ended(start_child(command, **CHILD), timeout)
    if status is None:
        pytest.fail(f"{' '.join(command)} ran longer than {timeout} s\n{out}\n{err}")
    return subprocess.CompletedProcess(command, status, out, err)


@pytest.fixture(scope="session")
def forks() -> Iterator[Forks]:
    with Forks() as found:
        found.start({**os.environ, **CHILD})
        yield found


def _program(command: Sequence[str]) -> Program:
    def call(*arguments: object) -> "subprocess.CompletedProcess[str]":
        return run_child([*command, *map(str, arguments)])

    return call


@pytest.fixture
def opt(forks: Forks) -> Program:
    return _program(forks.commands["shard_dialect.opt"])


@pytest.fixture
def run(forks: Forks) -> Program:
    return _program(forks.commands["shard_dialect.run"])


@contextmanager
def at_level(number: int) -> Iterator[None]:
    """Programs are compiled at this level of LLVM's, here and in children."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SHARD_DIALECT_OPT_LEVEL", str(number))
        yield


@pytest.fixture
def unoptimized() -> Iterator[None]:
    """For tests of the passes, whose programs are many and small: LLVM takes most of their time.

    What LLVM makes of our code at its usual level is tested in `tests/runtime`, and of every op in
    `tests/ops/test_every_rule.py`.
    """
    with at_level(0):
        yield


@pytest.fixture
def pipelines(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The pipelines that programs are compiled with from here on: none, if they are kept."""
    from shard_dialect.runtime import compile as compiling

    found: list[str] = []
    run = compiling.run_pipeline

    def noted(module: object, pipeline: str) -> None:
        found.append(pipeline)
        run(module, pipeline)

    monkeypatch.setattr(compiling, "run_pipeline", noted)
    return found


def pytest_addoption(parser: pytest.Parser) -> None:
    slow.add_options(parser)


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Leave out what tests of the doors import: it has no doctests, and wants their packages."""
    is_helper = collection_path.suffix == ".py" and not collection_path.name.startswith("test_")
    return (is_helper and collection_path.parent.name in ("jax", "torch")) or None


def pytest_configure_node(node: Any) -> None:
    """Give xdist's workers the seed of this run."""
    node.workerinput["seed"] = slow.seed_of(node.config)


def pytest_report_header(config: pytest.Config) -> str:
    return f"seed: {slow.seed_of(config)} (--seed draws the same tests again)"


@pytest.hookimpl(wrapper=True)  # around pytest's own, which selects by -m
def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> Generator[None, None, None]:
    slow.mark_slow(items)
    extras.mark(items)
    if not config.option.all:
        slow.keep_share(items, config)
    yield
    workers = getattr(config, "workerinput", {}).get("workercount", 1)
    if workers > 1:
        slow.begin_with_slow(items, workers)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say what was not tried, and how to try it; and how to try again what has failed."""
    if terminalreporter.stats.get("failed"):
        terminalreporter.write_line(f"--seed {slow.seed_of(terminalreporter.config)} runs the same")
    stats = terminalreporter.stats
    for line in extras.summary(stats.get("skipped", ()), stats.get("passed", ())):
        terminalreporter.write_line(line)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """With SHARD_DIALECT_SKIP_NOTHING set, as in CI, a run that skips a test has failed.

    Not so for what only some machines have: root's rights, a browser.
    """
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if os.environ.get("SHARD_DIALECT_SKIP_NOTHING") and reporter is not None:
        stats = reporter.stats
        lines = extras.summary(stats.get("skipped", ()), stats.get("passed", ()))
        if any("; only " not in line for line in lines):
            session.exitstatus = pytest.ExitCode.TESTS_FAILED
