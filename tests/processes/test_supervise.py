"""What takes long is drawn, on terminals only, by the process that watches."""

import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT, Program

pty = pytest.importorskip("pty", reason="there are no terminals")

PROGRAM = """
import os, time
from shard_dialect.processes.launchers import TORCHRUN, launched_by
from shard_dialect.processes.supervise import doing
from shard_dialect.processes.watch import state, watched
watched(launched_by([TORCHRUN]))
for each in ("ready", "joined"):
    state(each)
doing("short work")
doing("long work")
time.sleep(3)
print("done", flush=True)
state("done")
os._exit(0)
"""


def stderr_of(rank: str | None) -> str:
    """What a terminal gets from the program."""
    ours, theirs = pty.openpty()
    environment = {**os.environ, **({"RANK": rank, "WORLD_SIZE": "1"} if rank else {})}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=theirs,
        text=True,
        timeout=60,
    )
    assert done.stdout == "done\n"
    os.close(theirs)
    drawn = b""
    with open(ours, "rb", buffering=0) as terminal:
        try:
            while part := terminal.read(65536):  # one read may give a part of what was written
                drawn += part
        except OSError:  # Linux says so that all has been read, and that the terminal is closed
            pass
    return drawn.decode()


@pytest.mark.parametrize("rank", [None, "0"])
def test_long_work_is_drawn_and_wiped(rank: str | None) -> None:
    drawn = stderr_of(rank)
    assert "long work: 2 s" in drawn
    assert "short work" not in drawn
    assert drawn.endswith("\r\x1b[K")


def test_other_ranks_draw_nothing() -> None:
    assert stderr_of("1") == ""


def test_a_file_whose_name_is_not_utf8(opt: Program, run: Program, tmp_path: Path) -> None:
    program = tmp_path / os.fsdecode(b"\xff.mlir")
    shutil.copy(ROOT / "examples" / "mlp_1d.mlir", program)
    for done in (opt(program, "-o", os.devnull), run(program)):
        assert done.returncode == 0, done.stderr


def test_a_line_on_stderr_is_one_write() -> None:
    """Else words of other ranks come in between."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    said = "from shard_dialect.errors import say; say('error: one')"
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    with ours, theirs:
        subprocess.run([sys.executable, "-c", said], env=environment, stderr=theirs, timeout=60)
        assert ours.recv(100) == b"error: one\n"
