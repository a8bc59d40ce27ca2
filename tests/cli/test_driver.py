"""`opt` as a program: its flags are tested, whatever it is given ends in one line, progress."""

import os
import pty
import re
import select
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from shard_dialect.cli.flags import parse_arguments
from tests.conftest import ROOT, Program

EXAMPLE = "examples/mlp_1d.mlir"
TESTS = [*(ROOT / "tests").rglob("*.mlir"), *(ROOT / "tests").rglob("test_*.py")]


def test_every_option_of_help_is_in_some_test(opt: Program) -> None:
    head = opt("--help=options").stdout
    options = set(re.findall(r"^  (--?[\w-]+)", head, re.MULTILINE))
    assert len(options) > 20
    text = "\n".join(path.read_text() for path in TESTS)
    untested = [name for name in options if not re.search(rf"\s\"?{name}[\s=,\"]", text)]
    assert not untested


GARBAGE: dict[str, tuple[Sequence[object], bytes | None]] = {
    "binary": (["--cse"], b"\x00\xff\xfe\x80"),
    "bytecode cut short": (["--cse"], b"ML\xefR\x01"),
    "text that is no MLIR": ([], b"hello"),
    "nothing closes": ([], b"module {" * 50),
    "no such file": (["nowhere.mlir"], None),
    "a folder": (["tests"], None),
    "an output that is a folder": ([EXAMPLE, "-o", "tests"], None),
    "an output in no folder": ([EXAMPLE, "-o", "nowhere/out.mlir"], None),
    "two inputs": ([EXAMPLE, EXAMPLE], None),
    "no value": ([EXAMPLE, "--pass-pipeline"], None),
    "a value where none is taken": ([EXAMPLE, "--emit-bytecode=1"], None),
    "a choice that is none": ([EXAMPLE, "--verify-diagnostics=some"], None),
    "a flag without a name": ([EXAMPLE, "--=1"], None),
    "brackets": ([EXAMPLE, "--pass-pipeline=}{)("], None),
    "groups deep in each other": (
        [EXAMPLE, f"--pass-pipeline={'any(' * 3000}cse{')' * 3000}"],
        None,
    ),
    "no UTF-8": ([EXAMPLE, b"--pass-pipeline=\xff"], None),
    "no UTF-8 in a flag": ([EXAMPLE, b"--\xff"], None),
    "a wrong value of upstream's option": ([EXAMPLE, "--canonicalize=max-iterations=many"], None),
    "a plugin that is a folder": ([EXAMPLE, "--load-plugin", "./tests"], None),
    "a plugin that is no Python": ([EXAMPLE, "--load-plugin", "./README.md"], None),
    "a relative plugin": ([EXAMPLE, "--load-plugin", "."], None),
    "a dump that is no folder": (
        [EXAMPLE, "--cse", "--mlir-print-ir-after-all", "--mlir-print-ir-tree-dir=README.md"],
        None,
    ),
    "a pass to print that is none": ([EXAMPLE, "--mlir-print-ir-before=nope"], None),
}


@pytest.mark.parametrize(("arguments", "text"), GARBAGE.values(), ids=GARBAGE)
def test_whatever_is_given_ends_in_an_error(arguments: Sequence[object], text: bytes) -> None:
    command = [sys.executable, "-m", "shard_dialect.opt", *arguments]
    done = subprocess.run(command, input=text or b"", capture_output=True, cwd=ROOT, timeout=60)
    shown = done.stderr.decode(errors="replace")
    assert done.returncode == 1, shown
    assert "Traceback" not in shown
    assert shown.splitlines()[-1].startswith("error: ") or ": error: " in shown


def test_nothing_is_a_module(opt: Program) -> None:
    assert opt().stdout == "module {\n}\n"


def test_one_dash_is_as_good_as_two() -> None:
    options, pipeline = parse_arguments(["-optimize-collectives", "-o", "x", "-cse"], "")
    assert (pipeline, options.output) == ("optimize-collectives,cse", "x")


def test_plugins_that_are_installed_meanwhile_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from shard_dialect import plugins

    monkeypatch.syspath_prepend(tmp_path)
    assert "meanwhile" not in plugins._installed()
    folder = tmp_path / "meanwhile-1.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: meanwhile\nVersion: 1.0\n")
    (folder / "entry_points.txt").write_text("[shard_dialect.plugins]\nany = meanwhile\n")
    assert "meanwhile" in plugins._installed()


def test_installed_plugins_are_loaded(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("print('mine is here')\n")
    folder = tmp_path / "mine-1.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: mine\nVersion: 1.0\n")
    (folder / "entry_points.txt").write_text("[shard_dialect.plugins]\nany = mine\n")
    done = subprocess.run(
        [sys.executable, "-m", "shard_dialect.opt", "--show-dialects"],
        env={**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{tmp_path}"},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stdout.startswith("mine is here\nAvailable Dialects: ")


SLOW = """
import time
from dataclasses import dataclass
from shard_dialect.passes.framework.base import Pass
from shard_dialect.passes.framework.pass_table import register_pass

@register_pass
@dataclass(frozen=True)
class SlowPass(Pass):
    \"\"\"Take three seconds.\"\"\"
    name = "slow-pass"

    def rewrite(self, module):
        time.sleep(3)
"""


CRASH = """
import os, signal
import shard_dialect as sd

@sd.register_pass
class Crash(sd.Pass):
    "Crash as C++ does."
    name = "crash"
    def rewrite(self, module):
        os.kill(os.getpid(), signal.SIGSEGV)
"""


def test_a_crash_is_an_error_with_a_place(opt: Program, tmp_path: Path) -> None:
    plugin = tmp_path / "crash.py"
    plugin.write_text(CRASH)
    done = opt(EXAMPLE, "--load-plugin", plugin, "--cse", "--crash")
    assert done.returncode == 1
    where = f"{plugin}:{1 + CRASH[: CRASH.index('def rewrite')].count(chr(10))}"
    assert done.stderr == (
        f"error: the program crashed (SIGSEGV) in pass 'crash' ({where}), at {EXAMPLE}:1:1\n"
    )


def test_a_crash_of_the_parser_is_one_too(opt: Program, tmp_path: Path) -> None:
    source = tmp_path / "in.mlir"
    source.write_text("""func.func @f(%x: tensor<4x8xf32>, %y: tensor<4xf32>) {
      %0 = linalg.reduce {arith.addf} ins(%x : tensor<4x8xf32>)
                                      outs(%y : tensor<4xf32>) dimensions = 1]
      return
    }""")
    done = opt(source)
    assert done.returncode == 1
    assert re.match(rf"{source}:\d+:\d+: error: ", done.stderr)


def on_a_terminal(command: Sequence[str]) -> str:
    """What the command prints on a terminal."""
    ours, theirs = pty.openpty()
    shows = {**os.environ, "SHARD_DIALECT_PROGRESS": ""}
    child = subprocess.Popen(command, cwd=ROOT, env=shows, stdout=subprocess.DEVNULL, stderr=theirs)
    os.close(theirs)
    shown = b""
    deadline = time.monotonic() + 180
    while time.monotonic() < deadline:
        if not select.select([ours], [], [], 1)[0]:
            continue
        try:
            more = os.read(ours, 65536)
        except OSError:  # the other end is closed
            break
        if not more:
            break
        shown += more
    os.close(ours)
    assert child.wait(60) == 0
    return shown.decode()


def test_a_slow_pass_is_named_on_a_terminal_and_wiped_off(tmp_path: Path) -> None:
    plugin = tmp_path / "slow.py"
    plugin.write_text(SLOW)
    command = [sys.executable, "-m", "shard_dialect.opt", EXAMPLE]
    shown = on_a_terminal([*command, "--load-plugin", str(plugin), "--cse", "--slow-pass", "--cse"])
    assert re.search(r"1 of 3 passes: slow-pass: \d+ s", shown)
    assert shown.endswith("\r\x1b[K")
    quick = on_a_terminal([*command, "--cse"])
    assert quick == "" or quick.endswith("\r\x1b[K")  # on a busy machine it takes long, too


def test_a_slow_pass_in_c_is_named_too(tmp_path: Path) -> None:
    count = 60_000
    body = "\n".join(f"%{i + 1} = arith.addi %{i}, %{i} : i32" for i in range(count))
    source = tmp_path / "long.mlir"
    source.write_text(f"func.func @f(%0: i32) -> i32 {{\n{body}\nreturn %{count} : i32\n}}\n")
    passes = ["--cse", "--canonicalize"] * 60
    shown = on_a_terminal([sys.executable, "-m", "shard_dialect.opt", str(source), *passes])
    assert re.search(r"cse, canonicalize, cse.*: \d+ s", shown)
