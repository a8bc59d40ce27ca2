"""Who squats where the ranks of a job meet is found out, and makes none wait longer than it may."""

import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from shard_dialect.processes import jobs
from shard_dialect.processes.launchers import TORCHRUN
from tests.conftest import ROOT
from tests.extras import needs
from tests.hostile.programs import TINY

pytestmark = needs("torch")
NOBODY = 65534


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """Of a rank that a launcher has started, of a job that no other test has."""
    (tmp_path / "in.mlir").write_text(TINY)
    port = str(20000 + os.getpid() % 10000)
    ranks = {"RANK": "0", "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1"}
    return {**os.environ, **ranks, "MASTER_PORT": port, "TORCHELASTIC_RUN_ID": str(tmp_path)}


def job_of(environment: dict[str, str]) -> str:
    rank = TORCHRUN.read(environment)
    assert rank is not None
    assert rank.job
    return rank.job


def run(environment: dict[str, str], *options: str) -> tuple[float, str]:
    """How long it takes, and its only line."""
    program = Path(environment["TORCHELASTIC_RUN_ID"]) / "in.mlir"
    command = [sys.executable, "-m", "shard_dialect.run", str(program), "--backend=torch", *options]
    began = time.monotonic()
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1, done.stderr
    return time.monotonic() - began, done.stderr.rstrip("\n")


@contextmanager
def squatter(job: str, *, backlog: int | None) -> Iterator[socket.socket]:
    """Has the place; does not listen, or never accepts."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as place:
        place.bind(jobs.name_of(job))
        if backlog is not None:
            place.listen(backlog)
        yield place


def test_one_that_does_not_listen(environment: dict[str, str]) -> None:
    with squatter(job_of(environment), backlog=None):
        seconds, said = run(environment, "--timeout=1.5")
    assert said == "error: not done after 1.5 s"
    assert seconds < 5


def test_one_that_does_not_listen_without_a_bound(environment: dict[str, str]) -> None:
    short = (
        "from shard_dialect.run import main; from shard_dialect.processes import jobs; "
        "jobs.MEET = 1.0; raise SystemExit(main())"
    )
    program = Path(environment["TORCHELASTIC_RUN_ID"]) / "in.mlir"
    command = [sys.executable, "-c", short, str(program), "--backend=torch"]
    with squatter(job_of(environment), backlog=None):
        done = subprocess.run(
            command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=30
        )
    assert done.returncode == 1
    assert re.fullmatch(
        r"error: nobody answers for \d s where the ranks of this job meet\n", done.stderr
    )


def test_one_whose_queue_is_full(environment: dict[str, str]) -> None:
    job = job_of(environment)
    with squatter(job, backlog=0):
        waiting = []
        for _ in range(8):
            link = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            link.setblocking(False)
            waiting.append(link)
            try:
                link.connect(jobs.name_of(job))
            except BlockingIOError:
                break
        seconds, said = run(environment, "--timeout=1.5")
        for link in waiting:
            link.close()
    assert said == "error: not done after 1.5 s"
    assert seconds < 5


def test_one_that_says_nothing(environment: dict[str, str]) -> None:
    with squatter(job_of(environment), backlog=16):
        seconds, said = run(environment, "--timeout=1.5")
    assert said == "error: not done after 1.5 s"
    assert seconds < 6


LISTEN = """
import os, socket, sys, time
os.setuid(int(sys.argv[2]))
place = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
place.bind(bytes.fromhex(sys.argv[1]))
place.listen(16)
print("listens", flush=True)
time.sleep(60)
"""


@pytest.mark.skipif(os.getuid() != 0, reason="only root has other users' processes")
def test_one_of_another_user(environment: dict[str, str]) -> None:
    name = jobs.name_of(job_of(environment)).hex()
    other = subprocess.Popen(
        [sys.executable, "-c", LISTEN, name, str(NOBODY)], stdout=subprocess.PIPE, text=True
    )
    try:
        assert other.stdout is not None
        assert other.stdout.readline() == "listens\n"
        seconds, said = run(environment)
    finally:
        other.kill()
        other.communicate(timeout=10)
    assert said == (f"error: user {NOBODY} has taken the place where the ranks of this job meet")
    assert seconds < 5


def test_both_sides_look_whose_the_other_is(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    job = str(tmp_path)
    listener = jobs.claim(job)
    assert listener is not None
    with listener:
        link = jobs.connect(job)
        assert link is not None
        link.close()
        assert jobs.claim(job) is None
        monkeypatch.setattr(jobs, "user_of", lambda _: os.getuid() + 1)
        with pytest.raises(jobs.NoMeetingError, match="has taken the place"):
            jobs.connect(job)
        assert not jobs.is_own_user(listener)
