"""A module without a grid has no sharding: passes leave it as it is, and one device runs it."""

import re

import pytest

from shard_dialect.errors import ShardError
from shard_dialect.ir.bindings import ir
from shard_dialect.ir.context import make_context
from shard_dialect.ir.reading.source import Source
from shard_dialect.passes.framework.pass_table import PASSES
from shard_dialect.passes.framework.pipeline import run_pipeline, steps_of
from shard_dialect.passes.pipelines import PIPELINES
from shard_dialect.testing import run_and_check

PROGRAM = """
func.func @main(%x: tensor<4x6xf32>, %w: tensor<24xf32>, %p: tensor<i1>)
    -> (tensor<24xf32>, tensor<4x6xf32>, tensor<4xf32>) {
  %m = stablehlo.reshape %x : (tensor<4x6xf32>) -> tensor<24xf32>
  %a = stablehlo.add %m, %w : tensor<24xf32>
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %r:2 = stablehlo.while(%i = %zero, %v = %x) : tensor<i32>, tensor<4x6xf32>
  cond {
    %n = stablehlo.constant dense<3> : tensor<i32>
    %c = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  } do {
    %one = stablehlo.constant dense<1> : tensor<i32>
    %j = stablehlo.add %i, %one : tensor<i32>
    %t = func.call @twice(%v) : (tensor<4x6xf32>) -> tensor<4x6xf32>
    stablehlo.return %j, %t : tensor<i32>, tensor<4x6xf32>
  }
  %b = "stablehlo.if"(%p) ({
    %t = stablehlo.tanh %r#1 : tensor<4x6xf32>
    stablehlo.return %t : tensor<4x6xf32>
  }, {
    stablehlo.return %x : tensor<4x6xf32>
  }) : (tensor<i1>) -> tensor<4x6xf32>
  %init = stablehlo.constant dense<0.0> : tensor<f32>
  %s = stablehlo.reduce(%b init: %init) applies stablehlo.add across dimensions = [1]
         : (tensor<4x6xf32>, tensor<f32>) -> tensor<4xf32>
  return %a, %r#1, %s : tensor<24xf32>, tensor<4x6xf32>, tensor<4xf32>
}
func.func private @twice(%x: tensor<4x6xf32>) -> tensor<4x6xf32> {
  %0 = stablehlo.add %x, %x : tensor<4x6xf32>
  return %0 : tensor<4x6xf32>
}
"""

DIRECTIONS = """
func.func @main(%x: tensor<4x6xf32>) -> tensor<4x6xf32> {
  %y = "mesh.propagation_barrier"(%x) {allowed_direction = "forward"}
         : (tensor<4x6xf32>) -> tensor<4x6xf32>
  "mesh.sharding_group"(%y) {group_id = 1 : i64} : (tensor<4x6xf32>) -> ()
  %z = stablehlo.tanh %y : tensor<4x6xf32>
  return %z : tensor<4x6xf32>
}
"""

NAMED = {
    "sharding": "func.func @main(%x: tensor<4xf32> {mesh.sharding = #mesh.shard<@g, [[0]]>})",
    "cluster": "func.func private @f()\nfunc.func @main() attributes {mesh_cluster = @g}",
    "mesh": 'func.func @main(%x: tensor<4xf32> {sdy.sharding = #sdy.sharding<@g, [{"x"}]>})',
}
"""Functions that name a grid which is not declared."""

LOWERING = {*steps_of("lower{target=mpi}"), *steps_of("lower{target=stablehlo}"), "lower"}
NEED_A_GRID = {"pipeline", "divide-into-stages"}
SHARDING_PASSES = [*({*PASSES, *PIPELINES} - LOWERING - NEED_A_GRID)]


def after(text: str, pipeline: str) -> tuple[str, str]:
    with make_context():
        module = Source.of(text).parse()
        before = str(module)
        run_pipeline(module, pipeline)
        return before, str(module)


@pytest.mark.parametrize("name", sorted(SHARDING_PASSES))
def test_a_pass_leaves_it_unchanged(name: str) -> None:
    before, changed = after(PROGRAM, name)
    assert changed == before


@pytest.mark.parametrize("name", sorted(SHARDING_PASSES))
def test_it_stays_unchanged_between_other_passes(name: str) -> None:
    before, changed = after(PROGRAM, f"spmd,{name},spmd")
    assert changed == before


@pytest.mark.parametrize("name", sorted(NEED_A_GRID))
def test_stages_are_refused(name: str) -> None:
    with pytest.raises(ShardError, match="declares no grid: stages are parts of one"):
        after(PROGRAM, name)


@pytest.mark.parametrize("text", [PROGRAM, DIRECTIONS], ids=["program", "directions"])
def test_one_device_runs_it(text: str) -> None:
    assert run_and_check(text, "spmd,lower").verdict.passed


def test_what_directs_propagation_is_erased() -> None:
    _, changed = after(DIRECTIONS, "spmd")
    assert re.findall(r"mesh[.]\w+", changed) == []


@pytest.mark.parametrize("case", NAMED)
@pytest.mark.parametrize(
    "name", ["sink-reshapes", "propagate", "materialize", "partition", "pipeline", "lower"]
)
def test_a_grid_that_is_not_declared_is_refused(name: str, case: str) -> None:
    """Also in a module that others have parsed, which our verifier has not seen."""
    with make_context(allow_unregistered=True):
        module = ir.Module.parse(NAMED[case] + " {\n  return\n}")
        with pytest.raises(ShardError, match=r"@g is not declared; the module's.*: none"):
            run_pipeline(module, name)


def test_a_mesh_that_a_sharding_writes_out_is_a_grid() -> None:
    sharding = '#sdy.sharding<mesh<["x"=2]>, [{"x"}]>'
    _, changed = after(
        f"func.func @main(%x: tensor<4xf32> {{sdy.sharding = {sharding}}}) -> tensor<4xf32> {{\n"
        "  return %x : tensor<4xf32>\n}",
        "spmd",
    )
    assert "shard.grid @inlined_mesh_0(shape = 2)" in changed
    assert "tensor<2xf32>" in changed


@pytest.mark.parametrize("target", ["runtime", "mpi", "stablehlo"])
def test_collectives_between_devices_of_no_grid_are_not_lowered(target: str) -> None:
    text = """
func.func @main() -> tensor<ui32> {
  %0 = stablehlo.partition_id : tensor<ui32>
  return %0 : tensor<ui32>
}
"""
    before, changed = after(text, "spmd")
    assert changed == before
    with pytest.raises(ShardError, match=r"'stablehlo[.]partition_id' op is on devices of no grid"):
        after(text, f"spmd,lower{{target={target}}}")


def test_a_function_that_calls_itself_is_refused() -> None:
    text = """
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = call @main(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
"""
    with pytest.raises(ShardError, match="@main calls itself"):
        after(text, "spmd")
