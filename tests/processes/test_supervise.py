"""What takes long is drawn, on terminals only, by the process that watches."""

import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

import pytest

from shard_dialect.errors import let_go_aside
from shard_dialect.processes import progress
from tests.conftest import ROOT, Program

pty = pytest.importorskip("pty", reason="there are no terminals")

PROGRAM = """
import os, time
from shard_dialect.processes.launchers import TORCHRUN, launched_by
from shard_dialect.processes.to_parent import doing
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


def stderr_of(rank: str | None, program: str = PROGRAM, **more: str) -> str:
    """What a terminal gets from the program."""
    more = {"SHARD_DIALECT_PROGRESS": "", **more}
    ours, theirs = pty.openpty()
    environment = {**os.environ, **({"RANK": rank, "WORLD_SIZE": "1"} if rank else {}), **more}
    done = subprocess.run(
        [sys.executable, "-c", program],
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


def test_nothing_is_drawn_that_is_switched_off() -> None:
    assert stderr_of(None, SHARD_DIALECT_PROGRESS="0") == ""


WARNING = PROGRAM.replace(
    'print("done", flush=True)',
    """
from shard_dialect.cli.printing import write_output
from shard_dialect.errors import say
from shard_dialect.processes.to_parent import Count
with Count("things", 7, "--all") as outer, Count("parts", 9) as inner:
    outer.done(3)
    inner.done(4)
    time.sleep(1)
    say("warning: one")
    time.sleep(1)
    say("warning: two")
write_output("done\\n")
time.sleep(3)
""",
)


def test_what_is_drawn_goes_away_before_anything_is_printed() -> None:
    drawn = stderr_of(None, WARNING)
    assert "--all, 3 of 7 things, 4 of 9 parts: long work: " in drawn
    for line in ("warning: one", "warning: two"):
        before, _, after = drawn.partition(line)
        assert before.endswith(("\r\x1b[K", "\n"))
        assert after.startswith("\r\n")
    assert "long work" in drawn.partition("warning: one")[2]
    # Nothing is drawn after the result; before it, once, if the child has to wait for a processor.
    last = drawn.partition("warning: two\r\n")[2]
    assert last.count("long work") <= 1
    assert not last or last.endswith("\r\x1b[K")


class Clock:
    """The time, as a test sets it."""

    now = 0.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Clock, list[str]]]:
    clock, lines = Clock(), []
    monkeypatch.setattr(progress, "time", clock)
    monkeypatch.setattr(progress, "_write", lines.append)
    yield clock, lines
    let_go_aside(lambda is_result: nullcontext())


def test_a_log_has_a_line_after_five_seconds_and_each_ten(written: tuple[Clock, list[str]]) -> None:
    clock, lines = written
    shown = progress.Progress(0, "log")
    shown.begin("insert-collectives")
    shown.hear("!far", "14 of 41 passes")
    for tenth in range(350):
        clock.now = tenth / 10
        shown.look()
    assert lines == [
        f"note: after {seconds} s: 14 of 41 passes: insert-collectives\n" for seconds in (5, 15, 25)
    ]


def test_a_terminal_has_one_line_that_is_no_wider(written: tuple[Clock, list[str]]) -> None:
    clock, lines = written
    shown = progress.Progress(0, "terminal")
    shown.begin("x" * 500)
    clock.now = 1.9
    shown.look()
    assert lines == []
    clock.now = 2.1
    shown.look()
    (line,) = lines
    assert line.startswith("\r\x1b[Kxxx")
    assert line.endswith("…: 2 s\r")
    assert len(line) < 500
    shown.end()
    assert lines[1:] == ["\r\x1b[K"]
    clock.now = 5.0
    shown.look()
    assert len(lines) == 2


def test_nothing_is_shown_while_the_child_prints(written: tuple[Clock, list[str]]) -> None:
    clock, lines = written
    read, write = os.pipe()
    shown = progress.Progress(write, "terminal")
    shown.begin("a step")

    def is_drawn() -> bool:
        clock.now += 3.0
        before = len(lines)
        shown.look()
        return len(lines) > before

    assert is_drawn()
    for kind in ("!aside", "!aside", "!back"):  # a warning inside of a run that is timed
        assert shown.hear(kind, "")
    assert os.read(read, 9) == b".."
    assert lines[-1] == "\r\x1b[K"
    shown.begin("another step")
    assert not is_drawn()
    shown.hear("!back", "")
    assert is_drawn()
    shown.hear("!aside", "")
    shown.hear("!result", "")
    assert not is_drawn()
    shown.begin("what follows")
    assert is_drawn()
    os.close(read)
    shown.hear("!aside", "")  # the child has ended meanwhile
    os.close(write)


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


INTERRUPTED = """
import os, signal, time
from shard_dialect.processes.supervise import supervised
from shard_dialect.processes.to_parent import USER, tell
def program():
    for number in range(100):
        tell(USER, f"call {number}")
    os.kill(os.getppid(), signal.SIGINT)
    time.sleep(60)
for _ in range(100):
    supervised(program)
"""


def test_what_an_interrupted_program_has_told_is_not_lost() -> None:
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED],
        cwd=ROOT,
        stderr=subprocess.PIPE,
        text=True,
        timeout=60,
    )
    assert done.stderr.splitlines() == ["error: interrupted in call 99"] * 100
