"""Whatever a program is given, and whatever ends it: one line on stderr, and status 1."""

import os
import random
import re
import shutil
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from shard_dialect.abi.tensor_types import TensorType
from shard_dialect.errors import ShardError
from shard_dialect.runtime.array_files import load_inputs
from tests.conftest import ROOT, Program
from tests.hostile.programs import TINY

pytestmark = pytest.mark.usefixtures("unoptimized")

HEAD = "shard.grid @g(shape = 2)\n"
SPLIT = "{mesh.sharding = #mesh.shard<@g, [[0]]>}"
WHOLE = "{mesh.sharding = #mesh.shard<@g, [[]]>}"


def of_type(type_: str, result: str = "") -> str:
    return (
        f"{HEAD}func.func @main(%x: {type_} {SPLIT}) -> ({type_} {result}) {{\n"
        f"  %y = math.exp %x : {type_}\n  return %y : {type_}\n}}\n"
    )


def with_resource(data: str | None) -> str:
    held = f'{{-#\ndialect_resources: {{builtin: {{r: "{data}"}}}}\n#-}}\n' if data else ""
    return (
        f"{HEAD}func.func @main(%x: tensor<4xf32> {SPLIT}) -> tensor<4xf32> {{\n"
        "  %c = arith.constant dense_resource<r> : tensor<4xf32>\n"
        "  %y = arith.addf %x, %c : tensor<4xf32>\n  return %y : tensor<4xf32>\n}\n" + held
    )


def nested(opening: str, closing: str, count: int = 1000) -> str:
    return (
        f"{HEAD}func.func @main(%x: tensor<4xf32> {SPLIT}) -> tensor<4xf32> {{\n"
        f"  %c = arith.constant true\n{opening * count}{closing * count}"
        "  return %x : tensor<4xf32>\n}\n"
    )


ONE = "0000803F"
PROGRAMS = {
    "2^63-1": (of_type("tensor<9223372036854775807xf32>", WHOLE), "below 2\\^63"),
    "2^63-1, split": (of_type("tensor<9223372036854775807xf32>"), "it takes \\d+ bytes"),
    "2^63": (of_type("tensor<9223372036854775808xf32>"), "invalid dimension"),
    "2^32 x 2^32": (of_type("tensor<4294967296x4294967296xf32>"), "it takes \\d+ bytes"),
    "2^62 x 2": (of_type("tensor<4611686018427387904x2xf32>"), "it takes \\d+ bytes"),
    "2^41": (of_type("tensor<2199023255552xf32>"), "not enough memory"),
    "rank 100": (of_type(f"tensor<2x{'1x' * 99}f32>"), "100 dimensions"),
    "rank 1000": (of_type(f"tensor<2x{'1x' * 999}f32>"), "1000 dimensions"),
    "no resource": (with_resource(None), "resource does not exist"),
    "a short resource": (with_resource(f"0x04000000{ONE * 3}"), "raw data size"),
    "a long resource": (with_resource(f"0x04000000{ONE * 5}"), "raw data size"),
    "an empty resource": (with_resource("0x04000000"), "raw data size"),
    "a resource without a head": (with_resource("0x"), "alignment"),
    "nested regions": (nested("scf.execute_region {\n", "scf.yield\n}\n"), "nested too deep"),
    "nested branches": (nested("scf.if %c {\n", "}\n"), "nested too deep"),
    "nested lists": (f"module attributes {{a = {'[' * 20000}{']' * 20000}}} {{}}", "crashed"),
}
IN_OPT_TOO = [each for each in PROGRAMS if "nested" in each or each in ("2^63-1", "2^63")]


def refused(done: "subprocess.CompletedProcess[str]", said: str) -> None:
    assert done.returncode == 1, done.stderr
    (line,) = done.stderr.splitlines()
    assert re.match(r"(\S+:\d+:\d+: )?error: ", line)
    assert re.search(said, line), line
    assert "internal" not in line


@pytest.mark.parametrize("case", PROGRAMS)
def test_a_run_refuses_it(run: Program, tmp_path: Path, case: str) -> None:
    text, said = PROGRAMS[case]
    (tmp_path / "in.mlir").write_text(text)
    refused(run(tmp_path / "in.mlir", "--check"), said)


@pytest.mark.parametrize("case", IN_OPT_TOO)
def test_opt_refuses_it(opt: Program, tmp_path: Path, case: str) -> None:
    text, said = PROGRAMS[case]
    (tmp_path / "in.mlir").write_text(text)
    refused(opt(tmp_path / "in.mlir", "--spmd"), said)


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "in.mlir"
    path.write_text(TINY)
    return path


F32 = TensorType((4,), np.dtype(np.float32))


def patched(data: bytes, local: int, central: int, value: int) -> bytes:
    """The zip file with a field of its entry's two headers changed."""
    changed = bytearray(data)
    for begin, place in ((b"PK\x03\x04", local), (b"PK\x01\x02", central)):
        struct.pack_into("<H", changed, data.find(begin) + place, value)
    return bytes(changed)


FILES: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "a zip version": (lambda data: patched(data, 4, 6, 99), "zip file version 9.9"),
    "a compression": (lambda data: patched(data, 8, 10, 77), "compression method"),
    "encrypted": (lambda data: patched(data, 6, 8, 1), "encrypted"),
    "an npy version": (lambda data: data.replace(b"NUMPY\x01", b"NUMPY\x09"), "no .npz file"),
    "cut": (lambda data: data[:100], "no .npz file"),
    "nothing": (lambda _: b"", "no .npz file"),
}


@pytest.fixture
def inputs(tmp_path: Path) -> Path:
    path = tmp_path / "in.npz"
    np.savez(path, arg0=np.zeros(4, np.float32))
    return path


@pytest.mark.parametrize(("change", "said"), FILES.values(), ids=FILES)
def test_inputs_that_cannot_be_read(
    inputs: Path, change: Callable[[bytes], bytes], said: str
) -> None:
    inputs.write_bytes(change(inputs.read_bytes()))
    with pytest.raises(ShardError, match=said):
        load_inputs(str(inputs), [F32])


def test_damaged_inputs(inputs: Path) -> None:
    plain = inputs.read_bytes()
    np.savez_compressed(inputs, arg0=np.zeros(4, np.float32))
    drawn = random.Random(0)
    refusals = 0
    for data in [plain, inputs.read_bytes()] * 300:
        damaged = bytearray(data)
        for _ in range(drawn.randint(1, 4)):
            damaged[drawn.randrange(len(damaged))] = drawn.randrange(256)
        inputs.write_bytes(damaged)
        try:
            load_inputs(str(inputs), [F32])
        except ShardError:
            refusals += 1
    assert refusals > 300


DTYPES = {
    "structured": (
        np.zeros(4, [("a", "f4")]),
        "arg0 has the structured dtype \\[\\('a', '<f4'\\)\\]",
    ),
    "objects": (np.array([1, None, {}, ""], object), "arg0 has dtype object"),
    "raw bytes": (np.zeros(4, "V4"), "arg0 has dtype |V4"),
    "strings": (np.array(list("abcd")), "arg0 has dtype <U1"),
    "times": (np.zeros(4, "M8[s]"), "arg0 has dtype datetime64"),
    "swapped bytes": (np.zeros(4, ">f4"), "arg0 has dtype >f4"),
}


@pytest.mark.parametrize(("array", "said"), DTYPES.values(), ids=DTYPES)
def test_dtypes_that_are_no_elements(inputs: Path, array: np.ndarray, said: str) -> None:
    np.savez(inputs, arg0=array)
    with pytest.raises(ShardError, match=said):
        load_inputs(str(inputs), [F32])


def test_a_run_tells_of_its_inputs(run: Program, program: Path, inputs: Path) -> None:
    inputs.write_bytes(FILES["a zip version"][0](inputs.read_bytes()))
    refused(run(program, f"--inputs={inputs}"), "zip file version 9.9")
    refused(run(program, "--inputs", ""), "the name of a file is missing")


def test_a_file_whose_name_is_not_utf8(opt: Program, run: Program, tmp_path: Path) -> None:
    path = tmp_path / os.fsdecode(b"\xff\x80.mlir")
    path.write_text(TINY)
    for done in (opt(path, "--mlir-print-debuginfo"), run(path, "--json")):
        assert done.returncode == 0, done.stderr
    path.write_text("nonsense")
    for call in (opt, run):
        refused(call(path), r"\\udcff\\udc80\.mlir:1:1: error")


def shell(command: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        ["bash", "-c", command],
        cwd=ROOT,
        env={**os.environ, "P": f"{sys.executable} -m", **environment},
        capture_output=True,
        text=True,
        timeout=60,
    )


COMMANDS = [
    "$P shard_dialect.opt $FILE --cse",
    "$P shard_dialect.opt --help",
    "$P shard_dialect.opt --version",
    "$P shard_dialect.opt --show-dialects",
    "$P shard_dialect.run $FILE",
    "$P shard_dialect.run $FILE --json",
    "$P shard_dialect.run --help",
    "$P shard_dialect.prove $FILE $FILE --json",
    "$P shard_dialect.fuzz --version",
]


@pytest.mark.parametrize("command", COMMANDS)
def test_output_that_cannot_be_written(program: Path, command: str) -> None:
    full = shell(f"{command} > /dev/full", FILE=str(program))
    refused(full, "cannot write to standard output: no space left on device")


@pytest.mark.parametrize("command", [COMMANDS[0], COMMANDS[3], COMMANDS[4]])
def test_output_that_is_closed(program: Path, command: str) -> None:
    done = shell(f"{command} >&-", FILE=str(program))
    refused(done, "cannot write to standard output: it is closed")


@pytest.mark.parametrize("command", [COMMANDS[0], COMMANDS[4]])
def test_no_file_is_taken_for_a_closed_stream(program: Path, command: str, tmp_path: Path) -> None:
    for closed in ("<&- 2>&-", "2>/dev/full"):
        done = shell(f"{command} {closed}", FILE=str(program))
        assert done.returncode == 0
        assert done.stdout
        wrong = shell(f"{command} --nonsense {closed}", FILE=str(program))
        assert wrong.returncode == 1
        assert not wrong.stdout
    assert os.listdir(tmp_path) == ["in.mlir"]


@pytest.fixture
def full(tmp_path: Path) -> Iterator[Path]:
    """A folder on a disk that is full but for 8 KiB."""
    folder = tmp_path / "full"
    folder.mkdir()
    mounting = ["mount", "-t", "tmpfs", "-o", "size=16k", "none", str(folder)]
    if (
        shutil.which("mount") is None
        or subprocess.run(mounting, capture_output=True, timeout=60).returncode
    ):
        pytest.skip("a disk is full; only root can make one")
    (folder / "fill").write_bytes(b"0" * 8192)
    yield folder
    subprocess.run(["umount", str(folder)], check=True, timeout=60)


def test_a_full_disk_under_the_cache_is_no_error(full: Path, program: Path) -> None:
    done = shell(COMMANDS[4], FILE=str(program), SHARD_DIALECT_CACHE=str(full / "cache"))
    assert (done.returncode, done.stderr) == (0, "")
    assert not [*full.glob("cache/*")]


def test_a_largest_size_of_files_is_no_error_of_the_cache(program: Path, tmp_path: Path) -> None:
    command = f"ulimit -f 4; {COMMANDS[4]}"
    done = shell(command, FILE=str(program), SHARD_DIALECT_CACHE=str(tmp_path / "cache"))
    assert (done.returncode, done.stderr) == (0, "")


def test_dumps_that_cannot_be_written(program: Path, tmp_path: Path) -> None:
    flags = f"--mlir-print-ir-before-all --mlir-print-ir-tree-dir={tmp_path / 'tree'}"
    done = shell(f"ulimit -f 0; {COMMANDS[0]} {flags}", FILE=str(program))
    refused(done, "cannot write '.*cse.mlir': file too large")


FATAL = """
from shard_dialect.ir.bindings import ir, submodule
from shard_dialect.ir.fatal_errors import report_fatal_errors
report_fatal_errors(lambda text: print(text, flush=True))
with ir.Context():
    module = ir.Module.parse("llvm.func @f() { llvm.return }")
    engine = submodule("execution_engine").ExecutionEngine(module)
engine.raw_lookup("f")
engine.dump_to_object_file("/dev/full")
"""


def test_what_llvm_cannot_go_on_from_is_an_error_like_others() -> None:
    done = subprocess.run(
        [sys.executable, "-c", FATAL], cwd=ROOT, capture_output=True, text=True, timeout=60
    )
    assert done.stdout.startswith("error: LLVM ended in its start: IO failure on output stream")
    assert (done.returncode, done.stderr) == (1, "")


def test_a_reader_that_goes_is_no_error(program: Path) -> None:
    done = shell(f"{COMMANDS[1]} | head -1; exit ${{PIPESTATUS[0]}}")
    assert done.stderr == ""
    assert done.stdout.count("\n") == 1


AT_START = """
import os, signal, sys, time
from importlib.abc import MetaPathFinder

class Interrupting(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name == {name!r}:
            os.killpg(0, signal.SIGINT)  # as a terminal does
            time.sleep(10)

sys.meta_path.insert(0, Interrupting())
sys.argv = {argv!r}
import runpy
runpy.run_module({module!r}, run_name="__main__", alter_sys=True)
"""
IMPORTED = [
    *[("shard_dialect.opt", each) for each in ("gc", "argparse", "shard_dialect.cli.flags")],
    *[("shard_dialect.run", each) for each in ("argparse", "shard_dialect.processes.watch")],
    ("shard_dialect.run", "shard_dialect.cli.run_command"),
    ("shard_dialect.run", "ml_dtypes"),
    ("shard_dialect.prove", "shard_dialect.cli.flags"),
    ("shard_dialect.fuzz", "hypothesis"),
]


@pytest.mark.parametrize(("module", "name"), IMPORTED)
def test_an_interrupt_while_it_imports(program: Path, module: str, name: str) -> None:
    argv = [module, str(program)]
    text = AT_START.format(name=name, argv=argv, module=module)
    began = time.monotonic()
    command = [sys.executable, "-c", text]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=60, start_new_session=True
    )
    assert done.stderr == "error: interrupted\n"
    assert done.returncode == 1
    assert time.monotonic() - began < 8


WAITING = """
import pathlib, os, signal, subprocess, sys, time
import shard_dialect as sd

@sd.register_pass
class Wait(sd.Pass):
    "Wait, as C++ would: no signal is heard."
    name = "wait"
    def rewrite(self, module):
        pathlib.Path(os.environ["MARK"]).write_text(f"{os.getpid()} {os.getppid()}")
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        time.sleep(60)

@sd.register_pass
class Wrong(sd.Pass):
    "A bug."
    name = "wrong"
    def rewrite(self, module):
        assert False, "a \\x1b[31mbug"
"""


@pytest.fixture
def plugin(tmp_path: Path) -> Path:
    path = tmp_path / "plugin.py"
    path.write_text(WAITING)
    return path


def is_alive(process: int) -> bool:
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def gone(process: int) -> bool:
    deadline = time.monotonic() + 5
    while is_alive(process) and time.monotonic() < deadline:
        time.sleep(0.02)
    return not is_alive(process)


Waiting = tuple["subprocess.Popen[str]", int]


@pytest.fixture
def waiting(program: Path, plugin: Path, tmp_path: Path) -> Iterator[Waiting]:
    """An `opt` in a pass that never ends, and its child."""
    mark = tmp_path / "mark"
    command = [sys.executable, "-m", "shard_dialect.opt", program, f"--load-plugin={plugin}"]
    parent = subprocess.Popen(
        [*map(str, command), "--wait"],
        cwd=ROOT,
        env={**os.environ, "MARK": str(mark)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    deadline = time.monotonic() + 30
    while not mark.exists() or not mark.read_text().count(" "):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    child, its_parent = map(int, mark.read_text().split())
    assert its_parent == parent.pid
    yield parent, child
    assert gone(child)
    parent.kill()
    parent.communicate(timeout=10)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("to_all", [False, True], ids=["pid", "group"])
def test_opt_ends_with_its_child(waiting: Waiting, number: signal.Signals, to_all: bool) -> None:
    """On a terminal all of the group have the signal, else this process alone."""
    parent, child = waiting
    (os.killpg if to_all else os.kill)(parent.pid, number)
    _, said = parent.communicate(timeout=10)
    expected = "interrupted" if number == signal.SIGINT else f"ended by {number.name}"
    assert re.fullmatch(
        rf"error: {expected} in pass 'wait' \(.*plugin.py:\d+\), at .*in.mlir:1:1\n", said
    )
    assert parent.returncode == 1
    assert gone(child)


def test_the_child_of_an_opt_that_is_killed(waiting: Waiting) -> None:
    parent, child = waiting
    parent.kill()
    assert parent.wait(timeout=10) == -signal.SIGKILL
    assert gone(child)


def test_a_child_that_is_killed(waiting: Waiting) -> None:
    parent, child = waiting
    os.kill(child, signal.SIGKILL)
    _, said = parent.communicate(timeout=10)
    assert said == "error: killed (SIGKILL): perhaps the memory ran out\n"
    assert parent.returncode == 1


def test_what_a_plugin_raises_is_an_error_of_it(opt: Program, program: Path, plugin: Path) -> None:
    arguments = [program, f"--load-plugin={plugin}", "--cse", "--wrong"]
    done = opt(*arguments)
    assert done.returncode == 1
    raised = "error: pass 'wrong' raised AssertionError: a \\x1b[31mbug"
    line, note = done.stderr.splitlines()
    assert line == raised
    assert note.startswith(f"{plugin}:")
    assert note.endswith(": note: raised here")
    done = opt(*arguments, "--debug")
    assert done.returncode == 1
    line, _, *traceback = done.stderr.splitlines()
    assert line == raised
    assert any("in rewrite" in each for each in traceback)
    assert all(each.isprintable() for each in traceback)


STAGES = {
    "compiler": ("shard_dialect.runtime.compile", "choose_entry"),
    "compiled program": ("shard_dialect.cli.run_command", "InProcess.run"),
    "inputs": ("shard_dialect.cli.run_command", "drawn_inputs"),
}


@pytest.mark.parametrize("stage", STAGES)
def test_an_internal_error_names_the_stage_of_a_run(
    run: Program, program: Path, tmp_path: Path, stage: str
) -> None:
    module, name = STAGES[stage]
    fault = tmp_path / "fault.py"
    fault.write_text(f"import {module}\n{module}.{name} = None\n")
    done = run(program, f"--load-plugin={fault}")
    assert done.returncode == 1
    assert f"error: internal error in the {stage}: TypeError: " in done.stderr
    assert done.stderr.count("\n") == 1
    assert (
        "Traceback (most recent call last)"
        in run(program, f"--load-plugin={fault}", "--debug").stderr
    )


def test_nothing_that_was_freed_is_read(tmp_path: Path) -> None:
    """With what is freed overwritten at once, a reading of it shows."""
    command = [sys.executable, "-m", "shard_dialect.run", "examples/training_step.mlir", "--check"]
    environment = {**os.environ, "MALLOC_PERTURB_": "165", "SHARD_DIALECT_CACHE": str(tmp_path)}
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=200
    )
    assert done.returncode == 0, done.stderr
    assert "check passed" in done.stdout
