"""The fuzzer finds what is wrong, survives what crashes and hangs, and makes it small."""

import math
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from random import Random

import pytest

from shard_dialect.fuzz import _FEATURES as KINDS
from shard_dialect.fuzz import Fuzzer, main
from shard_dialect.testing import any_program, runnable
from shard_dialect.testing.child_process import Child, Pipeline, Result
from tests.conftest import run_child
from tests.extras import needs

pytestmark = pytest.mark.usefixtures("unoptimized")

PASSES = """
import os, time
from dataclasses import dataclass
import shard_dialect as sd
from shard_dialect.ir.walk import walk

@dataclass(frozen=True)
class Spoil(sd.Pass):
    \"\"\"Do to each of some ops what no pass should.\"\"\"
    name = "spoil"
    op: str = "math.sin"
    how: str = "wrong"
    def rewrite(self, module):
        for op in [each for each in walk(module) if each.name == self.op]:
            if self.how == "wrong":
                op.results[0].replace_all_uses_with(op.operands[0])
                op.erase()
            elif self.how == "crash":
                os.abort()
            elif self.how == "hang":
                time.sleep(60)
            elif self.how == "refuse":
                raise sd.ShardError("too wavy", "wave.mlir:1:1")
            else:
                raise ValueError("spoilt")

sd.register_pass(Spoil)
"""
ONE_OP = (
    "shard.grid @g(shape = 2)\nfunc.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {{\n{}\n}}\n"
)
SINE = ONE_OP.format("%y = math.sin %x : tensor<4xf32>\nreturn %y : tensor<4xf32>")


@pytest.fixture
def plugin(tmp_path: Path) -> str:
    path = tmp_path / "spoil.py"
    path.write_text(PASSES)
    return str(path)


def fuzz(plugin: str, folder: Path, *more: str) -> int:
    return main(["--load-plugin", plugin, "--output", str(folder), "--seed", "3", *more])


def test_a_difference_is_made_small(
    plugin: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "found"
    pipeline = "spmd,spoil{op=math.sin},lower"
    ops = ["--ops", "math.sin", "math.cos", "arith.mulf", "--programs", "12", "--seconds", "600"]
    assert fuzz(plugin, folder, "--pipeline", pipeline, *ops) == 1
    text = (folder / "failure-0.mlir").read_text()
    assert text.startswith("// wrong: result0 on device 0 at ")
    assert pipeline in text
    assert re.findall(r"= (?:math|arith)\.(\w+)", text) == ["sin"]
    printed = capsys.readouterr()
    assert "math.sin" in printed.out
    assert "error: " in printed.err


def test_a_crash_a_hang_and_a_traceback_end_the_case_alone(plugin: str) -> None:
    def run(child: Child, how: str) -> Result:
        return child.run(SINE, [("spmd", f"spoil{{how={how}}},lower")])

    with Child(60, [plugin]) as child:
        crashed = run(child, "crash")
        assert (crashed.kind, crashed.message_kind) == ("crashed", "SIGABRT")
        assert "rewrite" in crashed.detail  # where it was
        raised = run(child, "raise")
        assert raised.kind == "raised"
        assert "error: pass 'spoil' raised ValueError: spoilt" in raised.detail
        assert re.search(r"spoil\.py:\d+:1: note: raised here", raised.detail)
        assert run(child, "wrong").kind == "wrong"
        assert child.run(SINE, [("spmd,lower",)]).kind == "passed"
    with Child(5, [plugin]) as child:
        assert run(child, "hang").kind == "hung"


@needs("jax")
def test_a_judge_that_dies_is_followed_by_the_next(tmp_path: Path) -> None:
    path = tmp_path / "dies.py"
    path.write_text(
        "import os\nfrom shard_dialect.runtime.checking.reference import choose_judge\n"
        "choose_judge._COMPILE['xla'] = lambda *_: os.abort()\n"
    )
    with Child(60, [str(path)]) as child:
        result = child.run(SINE, [("spmd,lower",)])
        assert (result.kind, result.judge_died.splitlines()[0]) == ("passed", "SIGABRT")
        assert "upstream" in result.judge
        assert child.run(SINE, [("spmd,lower",)]).kind == "passed"


def test_each_kind_of_program_is_drawn() -> None:
    texts = [any_program(Random(seed)).text for seed in range(1500)]
    counts = {name: sum(1 for text in texts if kind.search(text)) for name, kind in KINDS.items()}
    assert min(counts.values()) >= 3, counts


class _Passes(Child):
    """Runs no program."""

    def __init__(self) -> None:
        pass

    def run(self, text: str, pipelines: Sequence[Pipeline], unsharded: str = "") -> Result:
        return Result("passed")


def test_ops_that_were_not_drawn_yet_are_favoured() -> None:
    drawn = Fuzzer(_Passes(), [("spmd,lower",)], runnable(), math.inf, 400)
    drawn.run(seed=10)
    assert len([name for name in runnable() if not drawn.drawn[name]]) <= 3


def test_a_refusal_is_no_failure() -> None:
    with Child(60) as child:
        result = child.run(ONE_OP.format("return %y : tensor<4xf32>"), [("spmd,lower",)])
    assert result.kind == "refused"
    assert not result.failed


def test_what_is_refused_is_kept(
    plugin: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pipeline = "spmd,spoil{how=refuse},lower"
    ops = ["--ops", "math.sin", "--programs", "4", "--seconds", "600"]
    assert fuzz(plugin, tmp_path, "--pipeline", pipeline, *ops) == 0
    assert "refused-0.mlir" in capsys.readouterr().out
    (file,) = tmp_path.glob("*-*.mlir")
    assert file.read_text().startswith(f"// refused: too wavy\n// pipeline: {pipeline}\n")


def test_what_passes_is_counted(tmp_path: Path) -> None:
    folder = tmp_path / "found"
    limits = ["--programs", "8", "--seconds", "600"]
    command = ["-m", "shard_dialect.fuzz", *limits, "--ops", "linalg.matmul", "math.*"]
    done = run_child(
        [sys.executable, *command, "--output", str(folder), "--pipeline", "spmd,lower"]
    )
    assert done.returncode == 0, done.stdout + done.stderr
    count = re.search(r"^(\d+) programs: ", done.stdout, re.MULTILINE)
    assert count is not None
    assert int(count[1]) > 5
    assert not folder.exists()


def test_unknown_ops_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--ops", "tosa.nothing", "--output", str(tmp_path)]) == 1
    error = "error: no op that can be run is called tosa.nothing: did you mean 'tosa.sin'?\n"
    assert capsys.readouterr().err == error


def test_a_seed_gives_the_same_programs() -> None:
    texts = [any_program(Random(seed)).text for seed in (0, 1, 0)]
    assert texts[0] == texts[2] != texts[1]


@needs("torch")
def test_programs_that_torch_computes(plugin: str, tmp_path: Path) -> None:
    """They run as they are, and what is wrong is found."""
    ops = ["--ops", "math.sin", "math.cos", "arith.mulf", "stablehlo.reduce", "--seconds", "600"]
    common = [*ops, "--compiler=torch", "--programs", "4"]
    assert fuzz(plugin, tmp_path / "right", *common) == 0
    assert fuzz(plugin, tmp_path / "wrong", "--pipeline", "spmd,spoil{op=math.sin}", *common) == 1
    text = (tmp_path / "wrong" / "failure-0.mlir").read_text()
    assert text.startswith("// wrong: result0 on device 0 at ")


MISSING = "error: hypothesis is not installed: run `pip install 'shard-dialect[test]'`\n"


@pytest.mark.parametrize(
    ("argument", "status", "out", "err"),
    [
        ("--help", 0, "--seconds", ""),
        ("--seconds=1", 1, "", MISSING),
    ],
)
def test_without_hypothesis_there_is_help_and_an_error_in_one_line(
    argument: str, status: int, out: str, err: str
) -> None:
    code = (
        f"import runpy, sys; sys.modules['hypothesis'] = None; sys.argv[1:] = [{argument!r}]; "
        "runpy.run_module('shard_dialect.fuzz', run_name='__main__')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stderr) == (status, err)
    assert out in done.stdout
