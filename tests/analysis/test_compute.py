"""Arithmetic, counted by hand."""

import pytest

from shard_dialect.analysis.costs.arithmetic import Compute, compute_of
from tests.analysis.local_programs import EXAMPLES, local


def count(text: str) -> Compute:
    return compute_of(local(text))


def test_mlp_1d() -> None:
    found = compute_of(local(EXAMPLES / "mlp_1d.mlir"))
    first, second, relu = 2 * 8 * 16 * 8, 2 * 8 * 8 * 16, 8 * 16
    assert [op.flops for op in found.ops] == [first, second, relu]
    assert found.flops == first + second + relu
    assert found.repeated_flops == 0
    # The first product reads 8x8 numbers, 8x16 weights and 8x16 zeros, and writes 8x16 sums.
    assert found.ops[0].bytes == 4 * (8 * 8 + 3 * 8 * 16)
    gathered = 4 * (8 * 4 + 8 * 8)
    fills = 4 * (8 * 16 + 8 * 8)
    products = 4 * (8 * 8 + 3 * 8 * 16) + 4 * (8 * 16 + 16 * 8 + 2 * 8 * 8)
    scattered = 4 * (8 * 8 + 8 * 4)
    assert found.bytes == gathered + fills + products + 4 * 3 * 8 * 16 + scattered


def test_mlp_2d() -> None:
    found = compute_of(local(EXAMPLES / "mlp_2d.mlir"))
    assert [op.flops for op in found.ops] == [2 * 8 * 8 * 4, 2 * 8 * 4 * 8, 8 * 4]
    assert found.repeated_flops == 0
    assert found.devices == 8


HEAD = 'sdy.mesh @m = <["x"=2, "y"=4]>\n'


def test_arithmetic_that_devices_repeat() -> None:
    """x is split along "x" only: the four devices along "y" do the same."""
    text = """
    func.func @main(%a: tensor<8x16xf32> {sdy.sharding = #sdy.sharding<@m, [{"x"}, {}]>},
                    %b: tensor<16x4xf32>)
        -> (tensor<8x4xf32> {sdy.sharding = #sdy.sharding<@m, [{"x"}, {}]>}) {
      %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0]
          : (tensor<8x16xf32>, tensor<16x4xf32>) -> tensor<8x4xf32>
      return %0 : tensor<8x4xf32>
    }
    """
    found = count(HEAD + text)
    assert found.flops == 2 * 4 * 16 * 4
    assert found.repeated_flops == found.flops * 3 // 4
    assert found.ops[0].copies == 4


def test_collectives_change_who_repeats() -> None:
    """The sums differ along no axis once they are reduced: all devices add the same to them."""
    text = """
    func.func @main(%a: tensor<4x8xf32> {sdy.sharding = #sdy.sharding<@m, [{}, {"x", "y"}]>},
                    %b: tensor<8x4xf32> {sdy.sharding = #sdy.sharding<@m, [{"x", "y"}, {}]>})
        -> tensor<4x4xf32> {
      %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0]
          : (tensor<4x8xf32>, tensor<8x4xf32>) -> tensor<4x4xf32>
      %1 = stablehlo.tanh %0 : tensor<4x4xf32>
      return %1 : tensor<4x4xf32>
    }
    """
    product, tanh = count(HEAD + text).ops
    assert (product.flops, product.repeated_flops) == (2 * 4 * 1 * 4, 0)
    assert (tanh.flops, tanh.elementary, tanh.repeated_flops) == (16, 16, 16 * 7 // 8)


@pytest.mark.parametrize(
    ("op", "flops"),
    [
        ("stablehlo.add %x, %x : tensor<4x6xf32>", 24),
        ("stablehlo.tanh %x : tensor<4x6xf32>", 24),
        ("stablehlo.transpose %x, dims = [1, 0] : (tensor<4x6xf32>) -> tensor<6x4xf32>", 0),
        ("stablehlo.convert %x : (tensor<4x6xf32>) -> tensor<4x6xbf16>", 0),
        (
            "stablehlo.reduce(%x init: %z) applies stablehlo.add across dimensions = [1]"
            " : (tensor<4x6xf32>, tensor<f32>) -> tensor<4xf32>",
            24,
        ),
        (
            '"stablehlo.reduce_window"(%x, %z) ({^bb0(%a: tensor<f32>, %b: tensor<f32>):'
            " %s = stablehlo.add %a, %b : tensor<f32>"
            ' "stablehlo.return"(%s) : (tensor<f32>) -> ()})'
            " {window_dimensions = array<i64: 2, 3>, window_strides = array<i64: 2, 3>}"
            " : (tensor<4x6xf32>, tensor<f32>) -> tensor<2x2xf32>",
            4 * 6,
        ),
        (  # a cumulative sum
            '"stablehlo.reduce_window"(%x, %z) ({^bb0(%a: tensor<f32>, %b: tensor<f32>):'
            " %s = stablehlo.add %a, %b : tensor<f32>"
            ' "stablehlo.return"(%s) : (tensor<f32>) -> ()})'
            " {window_dimensions = array<i64: 1, 6>, padding = dense<[[0, 0], [5, 0]]> :"
            " tensor<2x2xi64>} : (tensor<4x6xf32>, tensor<f32>) -> tensor<4x6xf32>",
            4 * 6,
        ),
        ("math.absf %x : tensor<4x6xf32>", 24),
        ("arith.addf %x, %x : tensor<4x6xf32>", 24),
        ("tosa.reduce_sum %x {axis = 1 : i32} : (tensor<4x6xf32>) -> tensor<4x1xf32>", 24),
        ("tosa.exp %x : (tensor<4x6xf32>) -> tensor<4x6xf32>", 24),
        (
            "linalg.matmul ins(%x, %w : tensor<4x6xf32>, tensor<6x5xf32>)"
            " outs(%i : tensor<4x5xf32>) -> tensor<4x5xf32>",
            2 * 4 * 6 * 5,
        ),
        (
            "linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>,"
            " affine_map<(i, j) -> (i)>],"
            ' iterator_types = ["parallel", "reduction"]} ins(%x : tensor<4x6xf32>)'
            " outs(%v : tensor<4xf32>) { ^bb0(%a: f32, %b: f32):"
            " %e = math.exp %a : f32  %s = arith.addf %b, %e : f32  linalg.yield %s : f32 }"
            " -> tensor<4xf32>",
            2 * 24,
        ),
        ("linalg.exp ins(%x : tensor<4x6xf32>) outs(%x : tensor<4x6xf32>) -> tensor<4x6xf32>", 24),
    ],
    ids=lambda each: str(each).split("(")[0].split("%")[0].strip(),
)
def test_flops(op: str, flops: int) -> None:
    text = f"""
    func.func @main(%x: tensor<4x6xf32>, %w: tensor<6x5xf32>, %i: tensor<4x5xf32>,
                    %v: tensor<4xf32>) {{
      %z = stablehlo.constant dense<0.0> : tensor<f32>
      %0 = {op}
      return
    }}
    """
    assert count("shard.grid @g(shape = 2)\n" + text).flops == flops


def test_convolutions() -> None:
    """Each of 8x8x4 numbers of the result is a sum over 3x3x2 of the shard and its halo."""
    found = compute_of(local(EXAMPLES / "convolution.mlir"))
    assert found.ops[0].name == "stablehlo.convolution"
    assert found.ops[0].flops == 2 * (8 * 8 * 4) * (3 * 3 * 2)


def test_loops_count_as_often_as_they_run() -> None:
    text = """
    func.func @main(%x: tensor<4xf32>, %n: index) -> tensor<4xf32> {
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %c7 = arith.constant 7 : index
      %r = scf.for %i = %c0 to BOUND step %c1 iter_args(%a = %x) -> tensor<4xf32> {
        %t = math.tanh %a : tensor<4xf32>
        scf.yield %t : tensor<4xf32>
      }
      return %r : tensor<4xf32>
    }
    """
    head = "shard.grid @g(shape = 2)\n"
    known = count(head + text.replace("BOUND", "%c7"))
    assert (known.flops, known.ops[0].times, known.open_loops) == (28, 7, ())


def test_uneven_shards() -> None:
    """5 rows on 4 devices are 2, 2, 1 and 0."""
    text = """
    func.func @main(%x: tensor<5x4xf32> {sdy.sharding = #sdy.sharding<@m, [{"y"}, {}]>})
        -> (tensor<5x4xf32> {sdy.sharding = #sdy.sharding<@m, [{"y"}, {}]>}) {
      %0 = stablehlo.tanh %x : tensor<5x4xf32>
      return %0 : tensor<5x4xf32>
    }
    """
    found = count(HEAD + text)
    assert [(each.name, each.dim, each.sizes) for each in found.uneven] == [
        ("argument 0", 0, (2, 2, 1, 0)),
        ("result 0", 0, (2, 2, 1, 0)),
    ]
    assert found.uneven[0].padding == 1 - 5 / 8
