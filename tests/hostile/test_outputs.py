"""A file that is named for output is replaced by a whole new one, or left as it is."""

import os
import re
import signal
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import numpy as np
import pytest

from shard_dialect.errors import ShardError
from shard_dialect.processes import atomic_files as outputs_module
from shard_dialect.processes.atomic_files import Output, OutputFolder
from tests.conftest import Program
from tests.hostile.programs import TINY

pytestmark = pytest.mark.usefixtures("unoptimized")

BEFORE = b"what was there"
NOBODY = 65534


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "in.mlir"
    path.write_text(TINY)
    return path


@pytest.fixture
def outputs(tmp_path: Path) -> Path:
    path = tmp_path / "out.npz"
    path.write_bytes(BEFORE)
    return path


def only(folder: Path, *names: str) -> None:
    assert sorted(each.name for each in folder.iterdir()) == sorted(names)


def test_a_run_that_succeeds_replaces_the_file(run: Program, program: Path, outputs: Path) -> None:
    outputs.chmod(0o640)
    assert run(program, f"--outputs={outputs}").returncode == 0
    assert np.load(outputs)["result0"].shape == ()
    assert stat.S_IMODE(outputs.stat().st_mode) == 0o640
    only(outputs.parent, "in.mlir", "out.npz")


WRONG = """
from shard_dialect.runtime.communicators.world import InProcess

run = InProcess.run
InProcess.run = lambda *given: [[each + 1 for each in shards] for shards in run(*given)]
"""
KILLED = """
import os, signal
import numpy as np
from shard_dialect.cli import run_command

def savez(file, *_, **__):
    file.write(b"PK")
    file.flush()
    os.kill(os.getpid(), signal.{signal})

np.savez = savez
"""
FAILURES = {
    "a syntax error": ("nonsense", "", []),
    "no such entry": (TINY, "", ["--entry=nothing"]),
    "wrong inputs": (TINY, "", ["--inputs=nowhere.npz"]),
    "a plugin that raises": (TINY, "raise ValueError", []),
    "a check that fails": (TINY, WRONG, ["--check"]),
    "killed while it writes": (TINY, KILLED.format(signal="SIGKILL"), []),
    "interrupted while it writes": (TINY, KILLED.format(signal="SIGINT"), []),
}


@pytest.mark.parametrize(("text", "plugin", "options"), FAILURES.values(), ids=FAILURES)
def test_a_run_that_fails_leaves_what_was_there(
    run: Program, program: Path, outputs: Path, text: str, plugin: str, options: list[str]
) -> None:
    program.write_text(text)
    fault = outputs.with_name("fault.py")
    fault.write_text(plugin)
    done = run(program, f"--outputs={outputs}", f"--load-plugin={fault}", *options)
    assert done.returncode == 1
    assert outputs.read_bytes() == BEFORE
    only(outputs.parent, "in.mlir", "out.npz", "fault.py", *glob(outputs.parent, "__pycache__"))


def glob(folder: Path, pattern: str) -> list[str]:
    return [each.name for each in folder.glob(pattern)]


def test_a_full_disk_leaves_what_was_there(program: Path, outputs: Path) -> None:
    """A limit on the size of files is one that this process can have."""
    limited = (
        "import resource, signal, sys\n"
        "from shard_dialect.run import main\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))\n"
        "sys.exit(main())\n"
    )
    command = [sys.executable, "-c", limited, program, f"--outputs={outputs}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert done.stderr == f"error: cannot write '{outputs}': file too large\n"
    assert outputs.read_bytes() == BEFORE
    only(outputs.parent, "in.mlir", "out.npz")


def itself(path: Path) -> Path:
    return path


def in_another_way(path: Path) -> Path:
    return path.parent / "." / ".." / path.parent.name / path.name


def by_a_symbolic_link(path: Path) -> Path:
    link = path.with_name(f"link-{path.name}")
    link.symlink_to(path)
    return link


def by_a_hard_link(path: Path) -> Path:
    link = path.with_name(f"hard-{path.name}")
    link.hardlink_to(path)
    return link


WAYS = [itself, in_another_way, by_a_symbolic_link, by_a_hard_link]


@pytest.mark.parametrize("way", WAYS)
def test_what_is_read_is_not_written_over(tmp_path: Path, way: Callable[[Path], Path]) -> None:
    file = tmp_path / "file"
    for is_there in (False, True) if way is not by_a_hard_link else (True,):
        if is_there:
            file.write_bytes(BEFORE)
        for link in tmp_path.glob("link-*"):
            link.unlink()
        with pytest.raises(ShardError, match="would be read and written over"):
            Output(str(way(file))).check(["elsewhere", str(file)])
    assert file.read_bytes() == BEFORE


READ = ["program", "inputs", "reference", "plugin", "module"]


@pytest.mark.parametrize("which", READ)
def test_nothing_that_a_run_reads_is_written_over(
    run: Program, tmp_path: Path, which: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ["in.mlir", "in.npz", "of.mlir", "plug.py", "module_plug.py"]
    files = dict(zip(READ, map(tmp_path.joinpath, names), strict=True))
    for each in files.values():
        each.write_bytes(BEFORE)
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{os.getcwd()}")
    done = run(
        files["program"],
        f"--inputs={files['inputs']}",
        "--check",
        f"--reference={files['reference']}",
        f"--load-plugin={files['plugin']}",
        "--load-plugin=module_plug",
        f"--outputs={files[which]}",
    )
    assert done.stderr == f"error: '{files[which]}' would be read and written over\n"
    assert done.returncode == 1
    assert all(each.read_bytes() == BEFORE for each in files.values())


@pytest.mark.parametrize("output", [Output("out"), OutputFolder("out")])
def test_a_working_directory_that_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, output: Output | OutputFolder
) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    with pytest.raises(ShardError, match="cannot write 'out': no such file or directory"):
        output.check(["in.mlir", str(tmp_path / "in.mlir")])


@pytest.mark.parametrize("name", ["--inputs", "--outputs", "--reference"])
def test_an_empty_name_is_an_error(run: Program, program: Path, name: str) -> None:
    done = run(program, name, "")
    assert done.returncode == 1
    assert done.stderr == (
        f"error: argument {name}: the name of a file is missing (--help lists all options)\n"
    )


def test_others_cannot_know_the_name_nor_be_there_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []

    def write(file: BinaryIO) -> None:
        seen.append(str(file.name))
        seen.extend(glob(tmp_path, ".*.partial"))

    for _ in range(2):
        Output(str(tmp_path / "out")).replace(write)
    names = [each for each in seen if each.endswith(".partial")]
    assert len(set(names)) == 2
    assert all(re.fullmatch(r"\.[0-9a-f]{32}\.partial", each) for each in names)

    victim = tmp_path / "victim"
    victim.write_bytes(BEFORE)
    monkeypatch.setattr(outputs_module, "token_hex", lambda _: "known")
    (tmp_path / ".known.partial").symlink_to(victim)
    with pytest.raises(ShardError, match="cannot write"):
        Output(str(tmp_path / "out")).replace(lambda file: file.write(b"new"))
    assert victim.read_bytes() == BEFORE


def test_a_link_stays_one(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "file").write_bytes(BEFORE)
    (tmp_path / "link").symlink_to(folder / "file")
    Output(str(tmp_path / "link")).replace(lambda file: file.write(b"new"))
    assert (tmp_path / "link").is_symlink()
    assert (folder / "file").read_bytes() == b"new"
    only(folder, "file")


def test_a_device_stays_one(run: Program, program: Path) -> None:
    assert run(program, "--outputs=/dev/null").returncode == 0
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)
    done = run(program, "--outputs=/dev/full")
    assert done.stderr == "error: cannot write '/dev/full': no space left on device\n"


def test_what_must_not_be_written_is_not_replaced() -> None:
    with _no_longer_root(), tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "file"
        file.write_bytes(BEFORE)
        file.chmod(0o444)
        with pytest.raises(ShardError, match="permission denied"):
            Output(str(file)).replace(lambda stream: stream.write(b"new"))
        assert file.read_bytes() == BEFORE


@contextmanager
def _no_longer_root() -> Iterator[None]:
    """Be somebody else, as root may write all."""
    user = os.geteuid()
    if user == 0:
        os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(user)


def test_opt_over_its_own_input(opt: Program, program: Path) -> None:
    assert opt(program, "--spmd", "-o", program).returncode == 0
    assert 'mesh.form = "local"' in program.read_text()
    text = program.read_bytes()
    done = opt(program, "--lower", "--emit-python=torch", "-o", program)  # of another form: refused
    assert done.returncode == 1
    assert program.read_bytes() == text
    only(program.parent, "in.mlir")


def test_opt_of_several_modules_over_its_own_input(opt: Program, program: Path) -> None:
    """One of them fails: half of a file is none."""
    program.write_text(f"{TINY}// -----\nnonsense\n// -----\n{TINY}")
    text = program.read_bytes()
    done = opt(program, "--split-input-file", "--spmd", "-o", program)
    assert (done.returncode, done.stderr.count("error: ")) == (1, 1)
    assert program.read_bytes() == text
    assert opt(program, "--split-input-file", "--spmd").stdout.count("mesh.form") == 2
    only(program.parent, "in.mlir")


def test_opt_that_is_killed_leaves_what_was_there(
    opt: Program, program: Path, outputs: Path
) -> None:
    fault = outputs.with_name("fault.py")
    fault.write_text(
        "import os, signal\nfrom shard_dialect.processes import atomic_files\n"
        "atomic_files.Path.replace = lambda *_: os.kill(os.getpid(), signal.SIGTERM)\n"
    )
    done = opt(program, f"--load-plugin={fault}", "-o", outputs)
    assert done.returncode == -signal.SIGTERM or done.returncode == 1
    assert outputs.read_bytes() == BEFORE


def test_opt_does_not_write_over_its_plugin(opt: Program, program: Path, tmp_path: Path) -> None:
    plugin = tmp_path / "plug.py"
    plugin.write_text("")
    done = opt(program, f"--load-plugin={plugin}", "-o", plugin)
    assert done.stderr == f"error: '{plugin}' would be read and written over\n"
    assert plugin.read_text() == ""
