"""Integers among the arguments are drawn of all sizes."""

import pytest

from tests.proof.test_blame import judged, local_of
from tests.proof.test_prove import proof

HIGH = """
shard.grid @g(shape = 2)
func.func @main(%a: tensor<4xi32> {mesh.sharding = #mesh.shard<@g, [[0]]>}, %b: tensor<4xi32>)
    -> (tensor<4xi32> {mesh.sharding = #mesh.shard<@g, [[0]]>}) {
  BODY
  return %r : tensor<4xi32>
}"""
REVERSED = "%turned = stablehlo.reverse %b, dims = [0] : tensor<4xi32>\n  "
BODIES = {
    "the high bits of a product": "%l, %r = arith.mului_extended %a, %b : tensor<4xi32>",
    "numbers below zero": """%zero = arith.constant dense<0> : tensor<4xi32>
  %r = arith.minsi %b, %zero : tensor<4xi32>""",
    "large numbers": """%c = arith.constant dense<1000000> : tensor<4xi32>
  %r = arith.divsi %b, %c : tensor<4xi32>""",
}


@pytest.mark.parametrize("what", BODIES)
def test_faults_that_only_some_integers_show_are_refuted(what: str) -> None:
    text = HIGH.replace("BODY", BODIES[what])
    assert judged(text, local_of(text)).answer == "proven"
    turned = HIGH.replace("BODY", REVERSED + BODIES[what].replace("%b", "%turned"))
    assert judged(text, local_of(turned)).answer == "refuted"


GATHERS = {
    "stablehlo.dynamic_slice": """
      %r = stablehlo.dynamic_slice %x, %i, sizes = [2]
        : (tensor<8xf32>, tensor<TYPE>) -> tensor<2xf32>
    """,
    "stablehlo.gather": """
      %n = stablehlo.reshape %i : (tensor<TYPE>) -> tensor<1xTYPE>
      %r = "stablehlo.gather"(%x, %n) {slice_sizes = array<i64: 2>,
        dimension_numbers = #stablehlo.gather<offset_dims = [0], start_index_map = [0]>}
        : (tensor<8xf32>, tensor<1xTYPE>) -> tensor<2xf32>
    """,
}


@pytest.mark.parametrize("type_", ["i32", "i64", "ui64"])
@pytest.mark.parametrize("op", GATHERS)
def test_positions_outside_mean_what_the_op_says(op: str, type_: str) -> None:
    """They are clamped, by each device, too."""
    text = f"""
    shard.grid @g(shape = 2)
    func.func @main(%i: tensor<{type_}>, %x: tensor<8xf32>
        {{mesh.sharding = #mesh.shard<@g, [[0]]>}}) -> tensor<2xf32> {{
      {GATHERS[op].replace("TYPE", type_)}
      return %r : tensor<2xf32>
    }}"""
    assert proof(text).answer == "proven"


def test_where_an_op_has_no_meaning_the_draws_do_not_count() -> None:
    text = """
    func.func @main(%x: tensor<8xf32>, %i: index) -> tensor<f32> {
      %e = tensor.extract %x[%i] : tensor<8xf32>
      %r = tensor.from_elements %e : tensor<f32>
      return %r : tensor<f32>
    }"""
    clamped = text.replace(
        "%e = tensor.extract %x[%i]",
        """%zero = arith.constant 0 : index
      %last = arith.constant 7 : index
      %a = arith.maxsi %i, %zero : index
      %b = arith.minsi %a, %last : index
      %e = tensor.extract %x[%b]""",
    )
    made, held = (
        each.replace("tensor<f32> {", 'tensor<f32> attributes {mesh.form = "local"} {')
        for each in (text, clamped)
    )
    found = judged(text, held)
    assert found.answer == "proven"
    assert found.evaluations < judged(clamped, held).evaluations
    assert judged(clamped, made).answer == "refuted"


def test_a_loop_of_as_many_turns_as_an_argument_says_is_judged() -> None:
    text = """
    shard.grid @g(shape = 2)
    func.func @main(%x: tensor<4xf32> {mesh.sharding = #mesh.shard<@g, [[0]]>}, %n: index)
        -> tensor<4xf32> {
      %zero = arith.constant 0 : index
      %one = arith.constant 1 : index
      %r = scf.for %i = %zero to %n step %one iter_args(%y = %x) -> tensor<4xf32> {
        %z = arith.mulf %y, %x : tensor<4xf32>
        scf.yield %z : tensor<4xf32>
      }
      return %r : tensor<4xf32>
    }"""
    local = local_of(text)
    assert judged(text, local).answer == "proven"
    assert judged(text, local.replace("arith.mulf", "arith.addf")).answer == "refuted"


TILES = """
shard.grid @g(shape = 2)
func.func @main(%x: tensor<6x4xf32> {mesh.sharding = #mesh.shard<@g, [[], [0]]>},
    %p: tensor<4x2x4xf32>, %y: tensor<6x4xf32>) -> (tensor<4x2x4xf32>, tensor<6x4xf32>) {
  %z = arith.constant 0.5 : f32
  %a = linalg.pack %x padding_value(%z : f32) outer_dims_perm = [1, 0] inner_dims_pos = [0]
    inner_tiles = [4] into %p : tensor<6x4xf32> -> tensor<4x2x4xf32>
  %b = linalg.unpack %a outer_dims_perm = [1, 0] inner_dims_pos = [0] inner_tiles = [4] into %y
    : tensor<4x2x4xf32> -> tensor<6x4xf32>
  return %a, %b : tensor<4x2x4xf32>, tensor<6x4xf32>
}"""


def test_tiles_are_movements_of_elements() -> None:
    assert proof(TILES).answer == "proven"
    back = TILES.replace("return %a, %b", "return %a, %x")
    assert judged(TILES, back).answer == "proven"
    assert judged(TILES, back.replace("0.5", "0.25")).answer == "refuted"


def test_a_transposed_convolution_is_one_of_a_spread_image() -> None:
    text = """
    func.func @main(%x: tensor<1x3x3x2xf32>, %k: tensor<5x2x3x2xf32>, %b: tensor<5xf32>)
        -> tensor<1x6x7x5xf32> {
      %z = "tosa.const"() {values = dense<0.0> : tensor<1xf32>} : () -> tensor<1xf32>
      %r = tosa.transpose_conv2d %x, %k, %b, %z, %z {acc_type = f32,
        out_pad = array<i64: 0, 0, 0, 0>, stride = array<i64: 2, 2>}
        : (tensor<1x3x3x2xf32>, tensor<5x2x3x2xf32>, tensor<5xf32>, tensor<1xf32>, tensor<1xf32>)
        -> tensor<1x6x7x5xf32>
      return %r : tensor<1x6x7x5xf32>
    }"""
    same = """
    func.func @main(%x: tensor<1x3x3x2xf32>, %k: tensor<5x2x3x2xf32>, %b: tensor<5xf32>)
        -> tensor<1x6x7x5xf32> {
      %t = stablehlo.reverse %k, dims = [1, 2] : tensor<5x2x3x2xf32>
      %c = stablehlo.convolution(%x, %t) dim_numbers = [b, 0, 1, f]x[o, 0, 1, i]->[b, 0, 1, f],
        window = {pad = [[1, 1], [2, 2]], lhs_dilate = [2, 2]}
        {batch_group_count = 1 : i64, feature_group_count = 1 : i64}
        : (tensor<1x3x3x2xf32>, tensor<5x2x3x2xf32>) -> tensor<1x6x7x5xf32>
      %w = stablehlo.broadcast_in_dim %b, dims = [3] : (tensor<5xf32>) -> tensor<1x6x7x5xf32>
      %r = stablehlo.add %c, %w : tensor<1x6x7x5xf32>
      return %r : tensor<1x6x7x5xf32>
    }"""
    assert judged(text, same).answer == "proven"


def test_of_forms_of_global_tensors_integers_are_positions() -> None:
    """A function that is parallel by hand may rely on what its arguments are."""
    text = """
    func.func @main(%i: tensor<2xi32>) -> tensor<2xi32> {
      %zero = arith.constant dense<0> : tensor<2xi32>
      %r = arith.maxsi %i, %zero : tensor<2xi32>
      return %r : tensor<2xi32>
    }"""
    assert judged(text, text.replace("return %r", "return %i")).answer == "proven"


def test_functions_give_integers_of_all_sizes() -> None:
    text = HIGH.replace(
        "BODY",
        """%m = arith.constant dense<1073741824> : tensor<4xi32>
  %s = arith.constant dense<30> : tensor<4xi8>
  %f = tosa.apply_scale %b, %m, %s {rounding_mode = SINGLE_ROUND}
    : (tensor<4xi32>, tensor<4xi32>, tensor<4xi8>) -> tensor<4xi32>
  %c = arith.constant dense<1000> : tensor<4xi32>
  %r = arith.divsi %f, %c : tensor<4xi32>""",
    )
    assert judged(text, local_of(text)).answer == "proven"
    turned = text.replace("%f = ", REVERSED + "%f = ").replace("scale %b", "scale %turned")
    assert judged(text, local_of(turned)).answer == "refuted"


COUNTS = {"ctpop": (0, 1, 8, 2), "ctlz": (8, 7, 0, 1), "cttz": (8, 0, 0, 2)}


@pytest.mark.parametrize("name", COUNTS)
def test_bits_are_counted(name: str) -> None:
    """As a compiler does that folds them."""
    text = f"""
    func.func @main() -> tensor<4xi8> {{
      %c = arith.constant dense<[0, 1, -1, 68]> : tensor<4xi8>
      %r = math.{name} %c : tensor<4xi8>
      return %r : tensor<4xi8>
    }}"""
    folded = text.replace("[0, 1, -1, 68]", str(list(COUNTS[name])))
    folded = folded.replace("return %r", "return %c")
    assert judged(text, folded).answer == "proven"


@pytest.mark.parametrize(
    ("op", "ends"),
    [("math.clampf %x to [%low, %high]", ("%low", "%high")), ("CLAMP", ("%high", "%low"))],
)
def test_which_end_of_a_clamp_wins(op: str, ends: tuple[str, str]) -> None:
    """Where the low end is above the high one, as the dialects have it; NaN stays what it is."""
    clamp = "%y = stablehlo.clamp %low, %x, %high" if op == "CLAMP" else f"%y = {op}"
    text = f"""
    func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {{
      %low = arith.constant dense<2.0> : tensor<4xf32>
      %high = arith.constant dense<1.0> : tensor<4xf32>
      {clamp} : tensor<4xf32>
      return %y : tensor<4xf32>
    }}"""
    found = [judged(text, text.replace("return %y", f"return {end}")).answer for end in ends]
    assert found == ["unknown", "refuted"]


def test_which_end_of_a_clamp_of_integers_wins() -> None:
    text = """
    func.func @main(%x: tensor<4xi32>) -> tensor<4xi32> {
      %low = arith.constant dense<2> : tensor<4xi32>
      %high = arith.constant dense<1> : tensor<4xi32>
      %y = stablehlo.clamp %low, %x, %high : tensor<4xi32>
      return %y : tensor<4xi32>
    }"""
    assert judged(text, text.replace("return %y", "return %high")).answer == "proven"
    assert judged(text, text.replace("return %y", "return %low")).answer == "refuted"
