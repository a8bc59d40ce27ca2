"""Private functions that are called once, and small ones, are inlined, so nothing ends at them."""

import pytest

import shard_dialect as sd

SPLIT = "{mesh.sharding = #mesh.shard<@g, [[0], []]>}"
CALLEE = """
func.func private @row(%x: tensor<16x8xf32>, %i: tensor<i32>) -> tensor<1x8xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %s = stablehlo.dynamic_slice %x, %i, %zero, sizes = [1, 8]
      : (tensor<16x8xf32>, tensor<i32>, tensor<i32>) -> tensor<1x8xf32>
  return %s : tensor<1x8xf32>
}"""
CALL = "func.call @row(%y, %i) : (tensor<16x8xf32>, tensor<i32>) -> tensor<1x8xf32>"


def program(callee: str = CALLEE, calls: int = 1) -> str:
    """The row of a tensor that is gathered before, unless the reader of the row is in sight."""
    more = "\n".join(f"  %r{number} = {CALL}" for number in range(1, calls))
    return f"""
shard.grid @g(shape = 4)
func.func @main(%x: tensor<16x8xf32> {SPLIT}, %i: tensor<i32>) -> tensor<1x8xf32> {{
  %n = stablehlo.negate %x : tensor<16x8xf32>
  %y = mesh.annotate %n {{sharding = #mesh.shard<@g, [[], []]>}} : tensor<16x8xf32>
  %r = {CALL}
{more}
  return %r : tensor<1x8xf32>
}}{callee}"""


@pytest.mark.parametrize("calls", [1, 3])
def test_a_small_function_is_seen_through(calls: int) -> None:
    text = program(CALLEE, calls)
    local = sd.run_pipeline(sd.parse(text), "spmd")
    assert "@row" not in sd.to_text(local)
    assert sd.compile(sd.parse(text)).check().passed
    no_inline = "-> tensor<1x8xf32> attributes {no_inline} {\n  %zero"
    kept = text.replace("-> tensor<1x8xf32> {\n  %zero", no_inline)
    kept_local = sd.run_pipeline(sd.parse(kept), "spmd")
    assert "@row" in sd.to_text(kept_local)
    one = text.replace("call @row(%y, %i)", "call @row(%y, %i) {no_inline}", 1)
    assert sd.to_text(sd.run_pipeline(sd.parse(one), "propagate")).count("call @row") == 1
    assert sd.communication(local).bytes_moved < sd.communication(kept_local).bytes_moved


def test_what_was_a_function_is_a_layer() -> None:
    text = """
    shard.grid @g(shape = 4)
    func.func @main(%x: tensor<16x8xf32> {mesh.sharding = #mesh.shard<@g, [[0], []]>})
        -> (tensor<8xf32> {mesh.sharding = #mesh.shard<@g, [[]]>}) {
      %r = func.call @total(%x) : (tensor<16x8xf32>) -> tensor<8xf32>
      return %r : tensor<8xf32>
    }
    func.func private @total(%x: tensor<16x8xf32>) -> tensor<8xf32> {
      %zero = stablehlo.constant dense<0.0> : tensor<f32>
      %s = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [0]
          : (tensor<16x8xf32>, tensor<f32>) -> tensor<8xf32>
      %n = stablehlo.negate %s : tensor<8xf32>
      return %n : tensor<8xf32>
    }"""
    found = sd.report(sd.parse(text)).communication
    assert {entry.layer for entry in found} == {"@total"}
    assert found[0].location == "<string>:12:12"


def test_a_large_function_of_several_calls_is_kept() -> None:
    ops = "\n".join(f"  %t{n + 1} = stablehlo.tanh %t{n} : tensor<16x8xf32>" for n in range(20))
    callee = f"""
func.func private @row(%t0: tensor<16x8xf32>, %i: tensor<i32>) -> tensor<1x8xf32> {{
{ops}
  %s = stablehlo.slice %t20 [0:1, 0:8] : (tensor<16x8xf32>) -> tensor<1x8xf32>
  return %s : tensor<1x8xf32>
}}"""
    assert "call @row" in sd.to_text(sd.run_pipeline(sd.parse(program(callee, 2)), "propagate"))
    assert "call @row" not in sd.to_text(sd.run_pipeline(sd.parse(program(callee)), "propagate"))
