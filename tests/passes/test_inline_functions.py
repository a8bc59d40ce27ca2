"""Private functions are inlined, if not too many ops are added, so nothing ends at them."""

from itertools import pairwise

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


def chain(ops: int) -> str:
    """A function of so many ops and two more."""
    lines = "\n".join(f"  %t{n + 1} = stablehlo.tanh %t{n} : tensor<16x8xf32>" for n in range(ops))
    return f"""
func.func private @row(%t0: tensor<16x8xf32>, %i: tensor<i32>) -> tensor<1x8xf32> {{
{lines}
  %s = stablehlo.slice %t{ops} [0:1, 0:8] : (tensor<16x8xf32>) -> tensor<1x8xf32>
  return %s : tensor<1x8xf32>
}}"""


@pytest.mark.parametrize(
    ("ops", "calls", "is_kept"),
    [(20, 2, False), (98, 11, False), (98, 13, True), (2000, 1, False), (2000, 2, False)],
)
def test_a_module_grows_by_some_ops_or_to_twice_its_size(
    ops: int, calls: int, is_kept: bool
) -> None:
    local = sd.run_pipeline(sd.parse(program(chain(ops), calls)), "propagate")
    assert ("call @row" in sd.to_text(local)) == is_kept


def test_a_gradient_sees_the_forward_pass() -> None:
    """Each is a function of several calls, and one reads what the other has on shards."""
    head, like = "tensor<2x4x64x64xf32>", "tensor<2x64x4x16xf32>"
    text = f"""
    shard.grid @g(shape = 4)
    func.func @main(%q: {like} {{mesh.sharding = #mesh.shard<@g, [[], [0]]>}}) -> {like} {{
      %y, %s = func.call @forward(%q) : ({like}) -> ({like}, {head})
      %z, %t = func.call @forward(%y) : ({like}) -> ({like}, {head})
      %b = func.call @backward(%z, %t, %y) : ({like}, {head}, {like}) -> {like}
      %a = func.call @backward(%b, %s, %q) : ({like}, {head}, {like}) -> {like}
      return %a : {like}
    }}
    func.func private @forward(%q: {like}) -> ({like}, {head}) {{
      %s = stablehlo.dot_general %q, %q, batching_dims = [0, 2] x [0, 2],
          contracting_dims = [3] x [3] : ({like}, {like}) -> {head}
      {chain_of(head, "s")}
      %o = stablehlo.dot_general %s20, %q, batching_dims = [0, 1] x [0, 2],
          contracting_dims = [3] x [1] : ({head}, {like}) -> tensor<2x4x64x16xf32>
      %y = stablehlo.transpose %o, dims = [0, 2, 1, 3] : (tensor<2x4x64x16xf32>) -> {like}
      return %y, %s20 : {like}, {head}
    }}
    func.func private @backward(%d: {like}, %s: {head}, %q: {like}) -> {like} {{
      {chain_of(head, "s", first="s")}
      %o = stablehlo.dot_general %s20, %d, batching_dims = [0, 1] x [0, 2],
          contracting_dims = [2] x [1] : ({head}, {like}) -> tensor<2x4x64x16xf32>
      %y = stablehlo.transpose %o, dims = [0, 2, 1, 3] : (tensor<2x4x64x16xf32>) -> {like}
      %e = stablehlo.add %y, %q : {like}
      return %e : {like}
    }}"""
    compiled = sd.compile(sd.parse(text))
    shard = 2 * 16 * 4 * 16 * 4
    # All is exchanged for heads at the beginning, and back in the end: nothing is gathered.
    assert compiled.report.bytes_moved <= 4 * shard
    assert compiled.check().passed


def chain_of(type_: str, name: str, first: str = "s") -> str:
    """Ops on a tensor, so that its function is not a small one."""
    names = [first, *(f"{name}{n}" for n in range(1, 21))]
    pairs = pairwise(names)
    return "\n".join(f"%{b} = stablehlo.tanh %{a} : {type_}" for a, b in pairs)
