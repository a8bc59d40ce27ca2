"""In StableHLO a permutation that not all devices reach is a gather: XLA lets all meet at one."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from shard_dialect.errors import ShardError
from shard_dialect.ir.context import make_context
from shard_dialect.ir.reading.source import Source
from shard_dialect.passes.framework.pipeline import run_pipeline
from tests.conftest import Program
from tests.extras import needs

HEAD = """
shard.grid @g(shape = 2x2)
func.func @main(
    %x: tensor<1xf32> {mesh.argument = tensor<4xf32, #mesh.shard<@g, [[0, 1]]>>},
    %n: tensor<1xindex> {mesh.argument = tensor<2xindex, #mesh.shard<@g, [[0]]>>},
    %w: tensor<1xindex> {mesh.argument = tensor<1xindex>})
    -> (tensor<1xf32> {mesh.result = tensor<4xf32, #mesh.shard<@g, [[0, 1]]>>})
    attributes {mesh.form = "local"} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c3 = arith.constant 3 : index
"""
SHIFT = (
    "shard.shift %v on @g grid_axes = [1] shift_axis = 1 offset = 1 rotate "
    ": tensor<1xf32> -> tensor<1xf32>"
)
CALLED = f"""
func.func private @ring(%v: tensor<1xf32>) -> tensor<1xf32> attributes {{mesh.form = "local"}} {{
  %0 = {SHIFT}
  return %0 : tensor<1xf32>
}}
"""
CALL = "func.call @ring(%v) : (tensor<1xf32>) -> tensor<1xf32>"
SUM = "shard.all_reduce %n on @g grid_axes = [0] : tensor<1xindex> -> tensor<1xindex>"

OF_N = "%k = tensor.extract %n[%c0] : tensor<1xindex>"
OF_W = "%k = tensor.extract %w[%c0] : tensor<1xindex>"
OF_SUM = f"%s = {SUM}\n%k = tensor.extract %s[%c0] : tensor<1xindex>"
OF_INDEX = "%k = shard.process_multi_index on @g axes = [0] : index"


def branch(of: str, inner: str) -> str:
    return f"""
  {of}
  %is = arith.cmpi ult, %k, %c1 : index
  %r = scf.if %is -> tensor<1xf32> {{
    %v = arith.addf %x, %x : tensor<1xf32>
    %1 = {inner}
    scf.yield %1 : tensor<1xf32>
  }} else {{
    scf.yield %x : tensor<1xf32>
  }}
  return %r : tensor<1xf32>
}}
"""


def counted(of: str, inner: str) -> str:
    return f"""
  {of}
  %r = scf.for %i = %c0 to %k step %c1 iter_args(%v = %x) -> tensor<1xf32> {{
    %1 = {inner}
    scf.yield %1 : tensor<1xf32>
  }}
  return %r : tensor<1xf32>
}}
"""


def conditional(of: str, inner: str) -> str:
    return f"""
  {of}
  %r:2 = scf.while (%i = %k, %v = %x) : (index, tensor<1xf32>) -> (index, tensor<1xf32>) {{
    %on = arith.cmpi ult, %i, %c3 : index
    scf.condition(%on) %i, %v : index, tensor<1xf32>
  }} do {{
  ^bb0(%i: index, %v: tensor<1xf32>):
    %1 = {inner}
    %j = arith.addi %i, %c1 : index
    scf.yield %j, %1 : index, tensor<1xf32>
  }}
  return %r#1 : tensor<1xf32>
}}
"""


def nested(of: str, inner: str) -> str:
    """What a loop carries is another value on some devices from the second round on."""
    return f"""
  {of}
  %r:2 = scf.for %i = %c0 to %c3 step %c1 iter_args(%m = %c1, %v = %x) -> (index, tensor<1xf32>) {{
    %2 = scf.for %j = %c0 to %m step %c1 iter_args(%u = %v) -> tensor<1xf32> {{
      %1 = {inner.replace("%v", "%u")}
      scf.yield %1 : tensor<1xf32>
    }}
    %o = arith.addi %m, %k : index
    scf.yield %o, %2 : index, tensor<1xf32>
  }}
  return %r#1 : tensor<1xf32>
}}
"""


@pytest.mark.parametrize("control_flow", [branch, counted, conditional, nested])
@pytest.mark.parametrize("inner", [SHIFT, CALL], ids=["here", "called"])
@pytest.mark.parametrize(
    ("of", "is_partly_reached"), [(OF_N, True), (OF_INDEX, True), (OF_W, False), (OF_SUM, False)]
)
def test_what_is_decided_alike_stays_a_permutation(
    control_flow: Callable[[str, str], str], inner: str, of: str, *, is_partly_reached: bool
) -> None:
    with make_context():
        called = CALLED if inner == CALL else ""
        module = Source.of(HEAD + control_flow(of, inner) + called).parse()
        run_pipeline(module, "lower{target=stablehlo}")
        text = str(module)
    assert ("all_gather" in text, "collective_permute" in text) == (
        is_partly_reached,
        not is_partly_reached,
    )


def test_called_from_where_all_come_and_from_where_some_come() -> None:
    """The callee is one function, so that it gathers for both."""
    after = f"%v = math.absf %r : tensor<1xf32>\n%a = {CALL}\nreturn %a"
    text = branch(OF_N, CALL).replace("return %r", after)
    with make_context():
        module = Source.of(HEAD + text + CALLED).parse()
        run_pipeline(module, "lower{target=stablehlo}")
        assert "collective_permute" not in str(module)


def test_recursion_is_refused() -> None:
    text = HEAD + branch(OF_W, CALL) + CALLED.replace("return %0", f"%1 = {CALL}\nreturn %1")
    with make_context(), pytest.raises(ShardError, match="function @ring calls itself"):
        run_pipeline(Source.of(text).parse(), "lower{target=stablehlo}")


@needs("jax")
@pytest.mark.parametrize("control_flow", [branch, counted, conditional, nested])
def test_xla_gives_what_threads_give(
    control_flow: Callable[[str, str], str], run: Program, tmp_path: Path
) -> None:
    path, inputs = tmp_path / "in.mlir", tmp_path / "in.npz"
    path.write_text(HEAD + control_flow(OF_N, SHIFT))
    np.savez(inputs, x=np.arange(4, dtype=np.float32), n=np.array([0, 1]), w=np.array([1]))
    found = []
    for backend in ("devices", "xla"):
        out = tmp_path / f"{backend}.npz"
        arguments = (f"--inputs={inputs}", f"--outputs={out}", "--timeout=30")
        done = run(str(path), f"--backend={backend}", *arguments)
        assert done.returncode == 0, done.stderr
        found.append(np.load(out)["result0"])
    np.testing.assert_array_equal(*found)
