"""Ranks on two hosts: right numbers; and whoever fails, both end soon, with the first error."""

import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.conftest import start_child
from tests.extras import needs
from tests.runtime.test_failing_ranks import errors
from tests.runtime.two_hosts import TwoHosts, needs_hosts, two_hosts

pytestmark = [needs_hosts, pytest.mark.usefixtures("unoptimized")]

SECONDS = 10.0
PROGRAM = """
shard.grid @g(shape = 4)
func.func @main(%x: tensor<8xf32> {mesh.sharding = #mesh.shard<@g, [[0]]>}) -> tensor<f32> {
  %zero = arith.constant dense<0.0> : tensor<f32>
  %sum = linalg.reduce {arith.addf} ins(%x : tensor<8xf32>) outs(%zero : tensor<f32>)
           dimensions = [0]
  return %sum : tensor<f32>
}
"""
WRAPPER = """
import os, pathlib, signal, sys, time

rank = int(os.environ.get("PMI_RANK") or os.environ["RANK"])
fault, _, bad = os.environ["TEST_FAULT"].partition(" ")
mark = pathlib.Path(os.environ["TEST_MARK"])

def killed(*_):
    mark.touch()
    os.kill(os.getpid(), signal.SIGKILL)

if bad == str(rank) and fault == "import":
    # Long before the ranks join, and where the others wait for it in a library.
    time.sleep(3)
    mark.touch()
    sys.modules["mpi4py"] = sys.modules["torch"] = None
from shard_dialect.run import main
if bad == str(rank) and fault == "kill":
    from shard_dialect.runtime.executable import Executable
    Executable.run = killed
if fault == "sleep":
    def sleeps(*_):
        time.sleep(1)
        mark.touch()
        time.sleep(600)

    from shard_dialect.runtime.executable import Executable
    Executable.run = sleeps
sys.exit(main())
"""


@pytest.fixture
def hosts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[TwoHosts]:
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "veth0")
    (tmp_path / "in.mlir").write_text(PROGRAM)
    (tmp_path / "wrapper.py").write_text(WRAPPER)
    with two_hosts(tmp_path) as made:
        yield made


def ended(
    commands: list[list[str]],
    folder: Path,
    fault: str,
    when_marked: Callable[[], object] = lambda: None,
) -> list[tuple[int, str, str, float]]:
    """Each command's status, output, errors, and the seconds that it took after the fault."""
    mark = folder / "mark"
    threading.Thread(target=lambda: wait_for(mark) and when_marked(), daemon=True).start()
    children: list[subprocess.Popen[str]] = [
        start_child(each, TEST_FAULT=fault, TEST_MARK=str(mark)) for each in commands
    ]
    found = []
    try:
        for child in children:
            out, err = child.communicate(timeout=90)
            began = mark.stat().st_mtime if mark.exists() else time.time()
            found.append((child.returncode, out, err, time.time() - began))
    finally:
        for child in children:
            if child.poll() is None:
                child.terminate()
                child.communicate(timeout=60)
    return found


def wait_for(mark: Path) -> bool:
    deadline = time.monotonic() + 60
    while not mark.exists() and time.monotonic() < deadline:
        time.sleep(0.1)
    return mark.exists()


def program(folder: Path) -> tuple[str, ...]:
    return str(folder / "wrapper.py"), str(folder / "in.mlir"), "--check"


LAUNCHERS = [
    pytest.param("mpiexec", marks=needs("mpi"), id="mpiexec"),
    pytest.param("torchrun", marks=needs("torch"), id="torchrun"),
]


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_two_hosts_compute(hosts: TwoHosts, launcher: str, tmp_path: Path) -> None:
    done = ended(getattr(hosts, launcher)(*program(tmp_path)), tmp_path, "")
    assert [status for status, *_ in done] == [0] * len(done), done
    assert "check passed" in done[0][1]


FAULTS = {
    "kill 3": "rank 3 was killed (SIGKILL) in the compiled program: perhaps the memory ran out",
    "kill 0": "rank 0 was killed (SIGKILL) in the compiled program: perhaps the memory ran out",
    "import 3": "{module} is not installed: run `pip install 'shard-dialect[{extra}]'`",
}


@pytest.mark.parametrize("launcher", LAUNCHERS)
@pytest.mark.parametrize(
    "fault",
    [
        pytest.param("kill 3", id="killed"),
        pytest.param("kill 0", id="killed-first", marks=pytest.mark.exhaustive),
        pytest.param("import 3", id="before-they-join"),
    ],
)
def test_a_failure_ends_both(hosts: TwoHosts, launcher: str, fault: str, tmp_path: Path) -> None:
    """Under torchrun each host has its own terminal, and both say what was first."""
    done = ended(getattr(hosts, launcher)(*program(tmp_path)), tmp_path, fault)
    module, extra = ("mpi4py", "mpi") if launcher == "mpiexec" else ("torch", "torch")
    expected = "error: " + FAULTS[fault].format(module=module, extra=extra)
    for status, _, said, seconds in done:
        assert errors(said) == [expected], said
        assert status == 1
        assert seconds < SECONDS


@pytest.mark.exhaustive
@needs("torch")
def test_a_host_that_vanishes(hosts: TwoHosts, tmp_path: Path) -> None:
    done = ended(hosts.torchrun(*program(tmp_path)), tmp_path, "sleep", hosts.cut)
    for others, (status, _, said, seconds) in zip(("23", "0"), done, strict=True):
        (error,) = errors(said)
        assert re.fullmatch(rf"error: the host of rank [{others}] does not answer", error), said
        assert status == 1
        assert seconds < SECONDS + 2  # torchrun takes one to end


def test_hosts_do_not_share_sockets(hosts: TwoHosts) -> None:
    """Else the other tests would show nothing."""
    listen = "import socket as s; x = s.socket(s.AF_UNIX); x.bind('\\0' + 'shard-x'); x.listen(); "
    command = [sys.executable, "-c", listen + "print(1, flush=True); input()"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(hosts.at(0, *command), text=True, **pipes) as first:
        assert first.stdout is not None
        assert first.stdout.readline() == "1\n"
        second = hosts.at(1, *command)
        done = subprocess.run(second, input="\n", capture_output=True, text=True, timeout=60)
        first.communicate("\n", timeout=60)
    assert done.returncode == 0, done.stderr
