"""A loop that never ends is never done: it gives no results, and none that pass a check."""

import os
import signal
import time
from pathlib import Path

import numpy as np
import pytest

from shard_dialect.analysis.program_report import report_on
from shard_dialect.ir.context import make_context
from shard_dialect.ir.reading.source import Source
from shard_dialect.testing import compile_unsharded
from tests.conftest import Program

pytestmark = [
    pytest.mark.usefixtures("unoptimized"),
    # JAX warns where another test of this process has used it; the child runs our code only.
    pytest.mark.filterwarnings(r"ignore:os\.fork\(\) was called:RuntimeWarning"),
]

SECONDS = 0.3
"""Any of the programs takes a millionth of it, if it ends."""
HEAD = "func.func @main(%x: tensor<4xf32>, %n: tensor<i32>) -> tensor<4xf32> {\n"
LOOPS = {
    "a block that goes to itself": "cf.br ^loop\n^loop: cf.br ^loop",
    "two blocks that go to each other": """
      %i = tensor.extract %n[] : tensor<i32>
      %c0 = arith.constant 0 : i32
      %e = arith.cmpi eq, %i, %c0 : i32
      cf.cond_br %e, ^one, ^done
    ^one: cf.br ^other
    ^other: cf.br ^one
    ^done: return %x : tensor<4xf32>""",
    "a number that is never met": """
      %i = tensor.extract %n[] : tensor<i32>
      %c1 = arith.constant 1 : i32
      %c2 = arith.constant 2 : i32
      cf.br ^loop(%i : i32)
    ^loop(%k: i32):
      %j = arith.muli %k, %c2 : i32
      %e = arith.cmpi eq, %j, %c1 : i32
      cf.cond_br %e, ^done, ^loop(%j : i32)
    ^done: return %x : tensor<4xf32>""",
    "in a function that is called": """
      %i = tensor.extract %n[] : tensor<i32>
      %k = func.call @spin(%i) : (i32) -> i32
      %y = math.exp %x : tensor<4xf32>
      return %y : tensor<4xf32>
    }
    func.func private @spin(%i: i32) -> i32 {
      cf.br ^loop(%i : i32)
    ^loop(%k: i32): cf.br ^loop(%k : i32)""",
    "a while of which nothing is read": """
      %i = tensor.extract %n[] : tensor<i32>
      %t = arith.constant true
      %r = scf.while (%s = %i) : (i32) -> i32 { scf.condition(%t) %s : i32 } do {
      ^bb0(%s: i32):
        %u = arith.addi %s, %s : i32
        scf.yield %u : i32
      }
      return %x : tensor<4xf32>""",
    "a while": """
      %t = arith.constant true
      %r = scf.while (%s = %x) : (tensor<4xf32>) -> tensor<4xf32> {
        scf.condition(%t) %s : tensor<4xf32>
      } do {
      ^bb0(%s: tensor<4xf32>):
        %u = math.tanh %s : tensor<4xf32>
        scf.yield %u : tensor<4xf32>
      }
      return %r : tensor<4xf32>""",
    "a while of StableHLO": """
      %r:2 = stablehlo.while(%s = %x, %i = %n) : tensor<4xf32>, tensor<i32>
       cond {
        %p = stablehlo.compare EQ, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
        stablehlo.return %p : tensor<i1>
       } do {
        stablehlo.return %s, %i : tensor<4xf32>, tensor<i32>
       }
      return %x : tensor<4xf32>""",
    "inside of a loop that ends": """
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %c2 = arith.constant 2 : index
      %t = arith.constant true
      %r = scf.for %i = %c0 to %c2 step %c1 iter_args(%a = %x) -> tensor<4xf32> {
        scf.while : () -> () { scf.condition(%t) } do { scf.yield }
        scf.yield %a : tensor<4xf32>
      }
      return %r : tensor<4xf32>""",
}
ENDING = {
    "blocks": (LOOPS["two blocks that go to each other"], 7),
    "a number": (LOOPS["a number that is never met"].replace("muli %k, %c2", "addi %k, %c1"), -5),
    "a while of StableHLO": (
        LOOPS["a while of StableHLO"].replace("compare EQ, %i, %n", "compare NE, %i, %i"),
        3,
    ),
}


class Nobody:
    """The communicator of a program that says nothing."""

    rank = 0

    def perform(self, *_: object) -> None:
        raise AssertionError


def ended_by(body: str, number: int) -> int:
    """The signal that ends a process which runs the program, 0 if it comes to its end."""
    program = compile_unsharded(f"{HEAD}{body}\n}}\n")
    x = np.arange(4, dtype=np.float32)
    child = os.fork()
    if child == 0:  # nothing of Python listens while the code runs: the system ends it
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_REAL, SECONDS)
        try:
            (result,) = program.run([x, np.array(number, np.int32)], Nobody())
            os._exit(not np.array_equal(result, x))
        finally:
            os._exit(2)
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0
            return os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
        time.sleep(0.01)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    pytest.fail("it can be ended by nobody")


@pytest.mark.parametrize("body", LOOPS.values(), ids=LOOPS)
def test_it_is_never_done(body: str) -> None:
    assert ended_by(body, 0) == signal.SIGALRM


@pytest.mark.parametrize(("body", "number"), ENDING.values(), ids=ENDING)
def test_others_end(body: str, number: int) -> None:
    assert ended_by(body, number) == 0


def test_a_run_ends_with_its_time(run: Program, tmp_path: Path) -> None:
    program = tmp_path / "in.mlir"
    split = "tensor<4xf32> {mesh.sharding = #mesh.shard<@g, [[0]]>}"
    head = HEAD.replace("%x: tensor<4xf32>", f"%x: {split}")
    body = LOOPS["a block that goes to itself"]
    program.write_text(f"shard.grid @g(shape = 2)\n{head}{body}\n}}\n")
    done = run(program, "--check", "--timeout=4")
    assert done.returncode == 1
    assert done.stderr == "error: not done after 4 s\n"


@pytest.mark.parametrize("body", LOOPS.values(), ids=LOOPS)
def test_what_it_costs_is_said_all_the_same(body: str) -> None:
    with make_context():
        report = report_on(Source.of(f"{HEAD}{body}\n}}\n").parse())
    assert "no communication" in str(report)
