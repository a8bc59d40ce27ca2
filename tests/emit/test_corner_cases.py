"""Programs that are easily written wrong: those that are right, and those that are refused."""

import re

import pytest

from shard_dialect.backends.python.python_module import TARGETS
from shard_dialect.backends.python.writer import Target
from shard_dialect.errors import ShardError
from tests.emit.test_emit_python import Batch, batch, emit
from tests.ops.stablehlo_ops import Family, drawn, gathers, scatters

pytestmark = pytest.mark.usefixtures("unoptimized")

__all__ = ["batch"]
GRID = "shard.grid @g(shape = 1)\n"

RIGHT = {
    "a barrier for several values": """
func.func @main(%x: tensor<4xf32>, %y: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %0:2 = stablehlo.optimization_barrier %x, %y : tensor<4xf32>, tensor<4xf32>
  %1 = stablehlo.add %0#0, %0#1 : tensor<4xf32>
  return %1, %0#1 : tensor<4xf32>, tensor<4xf32>
}
""",
    "a reduction of what does not depend on its loop": """
func.func @main(%x: tensor<3xf32>, %y: tensor<3x4xf32>) -> tensor<3xf32> {
  %z = arith.constant dense<0.0> : tensor<3xf32>
  %0 = linalg.generic {indexing_maps = [affine_map<(d0,d1)->(d0)>,
                       affine_map<(d0,d1)->(d0,d1)>,
                       affine_map<(d0,d1)->(d0)>],
      iterator_types = ["parallel","reduction"]}
      ins(%x,%y: tensor<3xf32>, tensor<3x4xf32>) outs(%z: tensor<3xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32):
    %s = arith.addf %a, %c : f32
    linalg.yield %s : f32
  } -> tensor<3xf32>
  return %0 : tensor<3xf32>
}
""",
    "a reduction of a constant": """
func.func @main(%y: tensor<3x4xf32>) -> tensor<3xf32> {
  %z = arith.constant dense<0.0> : tensor<3xf32>
  %one = arith.constant 2.0 : f32
  %0 = linalg.generic {indexing_maps = [affine_map<(d0,d1)->(d0,d1)>,
                       affine_map<(d0,d1)->(d0)>],
      iterator_types = ["parallel","reduction"]}
      ins(%y: tensor<3x4xf32>) outs(%z: tensor<3xf32>) {
  ^bb0(%b: f32, %c: f32):
    %s = arith.addf %one, %c : f32
    linalg.yield %s : f32
  } -> tensor<3xf32>
  return %0 : tensor<3xf32>
}
""",
    "a number spread over one element": """
func.func @main(%x: tensor<1x1xf32>) -> tensor<1x1xf32> {
  %i = arith.constant 0 : index
  %e = tensor.extract %x[%i, %i] : tensor<1x1xf32>
  %z = tensor.empty() : tensor<1x1xf32>
  %0 = linalg.generic {indexing_maps = [affine_map<(d0,d1)->()>,
                       affine_map<(d0,d1)->(d0,d1)>],
      iterator_types = ["parallel","parallel"]}
      ins(%e: f32) outs(%z: tensor<1x1xf32>) {
  ^bb0(%a: f32, %c: f32):
    %s = arith.mulf %a, %a : f32
    linalg.yield %s : f32
  } -> tensor<1x1xf32>
  return %0 : tensor<1x1xf32>
}
""",
    "different elements of f16": """
func.func @main(%x: tensor<2xf16>) -> tensor<2xf16> {
  %c = arith.constant dense<[1.0, 2.0]> : tensor<2xf16>
  %0 = arith.addf %x, %c : tensor<2xf16>
  return %0 : tensor<2xf16>
}
""",
    "what an index is less than, as a number": """
func.func @main(%x: tensor<4xf32>) -> tensor<i32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  %c2 = arith.constant 2 : index
  %z = arith.constant 0 : i32
  %r = scf.for %i = %c0 to %c4 step %c1 iter_args(%s = %z) -> i32 {
    %b = arith.cmpi slt, %i, %c2 : index
    %e = arith.extui %b : i1 to i32
    %n = arith.addi %s, %e : i32
    scf.yield %n : i32
  }
  %t = tensor.from_elements %r : tensor<i32>
  return %t : tensor<i32>
}
""",
    "the remainder of an index": """
func.func @main(%x: tensor<4xf32>) -> tensor<f32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c9 = arith.constant 9 : index
  %c4 = arith.constant 4 : index
  %z = arith.constant 0.0 : f32
  %r = scf.for %i = %c0 to %c9 step %c1 iter_args(%s = %z) -> f32 {
    %b = arith.remsi %i, %c4 : index
    %e = tensor.extract %x[%b] : tensor<4xf32>
    %n = arith.addf %s, %e : f32
    scf.yield %n : f32
  }
  %t = tensor.from_elements %r : tensor<f32>
  return %t : tensor<f32>
}
""",
    "a loop that counts in i32": """
func.func @main(%x: tensor<4xf32>) -> tensor<f32> {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c9 = arith.constant 9 : i32
  %z = arith.constant 0.0 : f32
  %r = scf.for %i = %c0 to %c9 step %c1 iter_args(%s = %z) -> f32 : i32 {
    %e = arith.sitofp %i : i32 to f32
    %n = arith.addf %s, %e : f32
    scf.yield %n : f32
  }
  %t = tensor.from_elements %r : tensor<f32>
  return %t : tensor<f32>
}
""",
    "quotients and remainders of all indices": """
func.func @main(%x: tensor<4xf32>) -> tensor<4xi64> {
  %z = tensor.empty() : tensor<4xi64>
  %c2 = arith.constant 2 : index
  %c3 = arith.constant 3 : index
  %0 = linalg.generic {indexing_maps = [affine_map<(d0)->(d0)>],
      iterator_types = ["parallel"]}
      outs(%z: tensor<4xi64>) {
  ^bb0(%c: i64):
    %i = linalg.index 0 : index
    %d = arith.divsi %i, %c2 : index
    %r = arith.remsi %i, %c3 : index
    %m = arith.addi %d, %r : index
    %o = arith.index_cast %m : index to i64
    linalg.yield %o : i64
  } -> tensor<4xi64>
  return %0 : tensor<4xi64>
}
""",
    "tensors without dimensions, padded and sliced": """
func.func @main(%x: tensor<f32>, %v: tensor<f32>) -> tensor<f32> {
  %0 = stablehlo.pad %x, %v, low = [], high = [], interior = []
      : (tensor<f32>, tensor<f32>) -> tensor<f32>
  %1 = stablehlo.slice %0 [] : (tensor<f32>) -> tensor<f32>
  return %1 : tensor<f32>
}
""",
    "comparisons that hold for what is no number": """
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %nan = arith.constant dense<[0x7FC00000, -2.0, 0.0, 1.0]> : tensor<4xf32>
  %y = arith.mulf %x, %nan : tensor<4xf32>
  %zero = arith.constant dense<0.0> : tensor<4xf32>
  %one = arith.constant dense<1.0> : tensor<4xf32>
  %a = arith.cmpf ugt, %y, %zero : tensor<4xf32>
  %b = arith.cmpf ule, %y, %zero : tensor<4xf32>
  %c = arith.select %a, %one, %zero : tensor<4xi1>, tensor<4xf32>
  %d = arith.select %b, %one, %zero : tensor<4xi1>, tensor<4xf32>
  %0 = arith.addf %c, %d : tensor<4xf32>
  return %0 : tensor<4xf32>
}
""",
    "what is broadcast from one element, and reduced to one": """
#all = affine_map<(d0, d1) -> (d0, d1)>
#first = affine_map<(d0, d1) -> (d0, 0)>
func.func @main(%x: tensor<4x6xf32>, %v: tensor<4x1xf32>) -> (tensor<4x1xf32>, tensor<4x6xf32>) {
  %0 = linalg.generic {indexing_maps = [#all, #first], iterator_types = ["parallel", "reduction"]}
      ins(%x : tensor<4x6xf32>) outs(%v : tensor<4x1xf32>) {
  ^bb0(%a: f32, %sum: f32):
    %s = arith.addf %a, %sum : f32
    linalg.yield %s : f32
  } -> tensor<4x1xf32>
  %e = tensor.empty() : tensor<4x6xf32>
  %1 = linalg.generic {indexing_maps = [#all, #first, #all],
                       iterator_types = ["parallel", "parallel"]}
      ins(%x, %0 : tensor<4x6xf32>, tensor<4x1xf32>) outs(%e : tensor<4x6xf32>) {
  ^bb0(%a: f32, %b: f32, %out: f32):
    %s = arith.divf %a, %b : f32
    linalg.yield %s : f32
  } -> tensor<4x6xf32>
  return %0, %1 : tensor<4x1xf32>, tensor<4x6xf32>
}
""",
    "many elements": f"""
func.func @main(%x: tensor<1200xf32>) -> tensor<1200xf32> {{
  %c = arith.constant dense<[{", ".join(f"{n % 97}.5" for n in range(1200))}]> : tensor<1200xf32>
  %0 = arith.addf %x, %c : tensor<1200xf32>
  return %0 : tensor<1200xf32>
}}
""",
    "the sign of what is no number": """
func.func @main(%x: tensor<3xf32>) -> tensor<3xf32> {
  %nan = stablehlo.constant dense<[0x7FC00000, -2.0, 0.0]> : tensor<3xf32>
  %y = stablehlo.multiply %x, %nan : tensor<3xf32>
  %0 = stablehlo.sign %y : tensor<3xf32>
  return %0 : tensor<3xf32>
}
""",
    "different indices, some below zero": """
func.func @main(%x: tensor<2xindex>) -> tensor<2xindex> {
  %c = arith.constant dense<[1, -2]> : tensor<2xindex>
  %0 = arith.addi %x, %c : tensor<2xindex>
  return %0 : tensor<2xindex>
}
""",
    "an element put into a tensor without dimensions": """
func.func @main(%x: tensor<f32>) -> tensor<f32> {
  %0 = arith.addf %x, %x : tensor<f32>
  %e = tensor.extract %x[] : tensor<f32>
  %1 = tensor.insert %e into %0[] : tensor<f32>
  return %1 : tensor<f32>
}
""",
    "every branch, and numbers that no branch is for": """
func.func @main(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  %low = arith.constant -2 : index
  %high = arith.constant 5 : index
  %one = arith.constant 1 : index
  %r:3 = scf.for %i = %low to %high step %one iter_args(%a = %x, %b = %x, %c = %x)
      -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
    %s:2 = scf.index_switch %i -> tensor<4xf32>, tensor<4xf32>
    case -1 {
      %1 = arith.addf %a, %x : tensor<4xf32>
      scf.yield %1, %x : tensor<4xf32>, tensor<4xf32>
    }
    case 3 {
      scf.yield %a, %a : tensor<4xf32>, tensor<4xf32>
    }
    default {
      %1 = arith.negf %a : tensor<4xf32>
      scf.yield %1, %b : tensor<4xf32>, tensor<4xf32>
    }
    %n = arith.index_cast %i : index to i32
    %t = tensor.from_elements %n : tensor<i32>
    %u = "stablehlo.case"(%t) ({
      %1 = stablehlo.add %c, %x : tensor<4xf32>
      stablehlo.return %1 : tensor<4xf32>
    }, {
      stablehlo.return %c : tensor<4xf32>
    }, {
      %1 = stablehlo.negate %c : tensor<4xf32>
      stablehlo.return %1 : tensor<4xf32>
    }) : (tensor<i32>) -> tensor<4xf32>
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %p = stablehlo.compare LT, %t, %zero : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %v = "stablehlo.if"(%p) ({
      %1 = stablehlo.add %u, %s#1 : tensor<4xf32>
      stablehlo.return %1 : tensor<4xf32>
    }, {
      stablehlo.return %u : tensor<4xf32>
    }) : (tensor<i1>) -> tensor<4xf32>
    scf.yield %s#0, %s#1, %v : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
  }
  return %r#0, %r#1, %r#2 : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}
""",
    "room around what windows see": """
func.func @main(%x: tensor<5xf32>) -> tensor<5xf32> {
  %z = stablehlo.constant dense<0.0> : tensor<f32>
  %0 = "stablehlo.reduce_window"(%x, %z) ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %1 = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %1 : tensor<f32>
  }) {window_dimensions = array<i64: 5>, padding = dense<[[4, 0]]> : tensor<1x2xi64>}
      : (tensor<5xf32>, tensor<f32>) -> tensor<5xf32>
  return %0 : tensor<5xf32>
}
""",
    "padding between elements, and elements that it takes off": """
func.func @main(%x: tensor<5x6xf32>, %v: tensor<f32>)
    -> (tensor<8x7xf32>, tensor<1x3xf32>, tensor<0x6xf32>) {
  %0 = stablehlo.pad %x, %v, low = [1, -2], high = [-2, 3], interior = [1, 0]
      : (tensor<5x6xf32>, tensor<f32>) -> tensor<8x7xf32>
  %1 = stablehlo.pad %x, %v, low = [-5, -3], high = [1, -5], interior = [0, 1]
      : (tensor<5x6xf32>, tensor<f32>) -> tensor<1x3xf32>
  %2 = stablehlo.pad %x, %v, low = [-3, 0], high = [-2, 0], interior = [0, 0]
      : (tensor<5x6xf32>, tensor<f32>) -> tensor<0x6xf32>
  return %0, %1, %2 : tensor<8x7xf32>, tensor<1x3xf32>, tensor<0x6xf32>
}
""",
    "a convolution of a dilated operand": """
func.func @main(%x: tensor<2x3x5xf32>, %k: tensor<4x3x2xf32>) -> tensor<2x4x8xf32> {
  %0 = stablehlo.convolution(%x, %k) dim_numbers = [b, f, 0]x[o, i, 0]->[b, f, 0],
    window = {pad = [[-1, 1]], lhs_dilate = [2]}
    {batch_group_count = 1 : i64, feature_group_count = 1 : i64}
    : (tensor<2x3x5xf32>, tensor<4x3x2xf32>) -> tensor<2x4x8xf32>
  return %0 : tensor<2x4x8xf32>
}
""",
    "a convolution in groups of the batch": """
func.func @main(%x: tensor<4x2x6xf32>, %k: tensor<6x2x3xf32>) -> tensor<2x6x6xf32> {
  %0 = stablehlo.convolution(%x, %k) dim_numbers = [b, f, 0]x[o, i, 0]->[b, f, 0],
    window = {pad = [[1, 1]]}
    {batch_group_count = 2 : i64, feature_group_count = 1 : i64}
    : (tensor<4x2x6xf32>, tensor<6x2x3xf32>) -> tensor<2x6x6xf32>
  return %0 : tensor<2x6x6xf32>
}
""",
    "a convolution in groups of a batch behind its features": """
func.func @main(%x: tensor<2x4x3x6xf32>, %k: tensor<3x3x2x6xf32>) -> tensor<6x2x3x2xf32> {
  %0 = stablehlo.convolution(%x, %k) dim_numbers = [f, b, 0, 1]x[0, 1, i, o]->[f, b, 0, 1],
    window = {stride = [1, 2], pad = [[1, 1], [0, 0]]}
    {batch_group_count = 2 : i64, feature_group_count = 1 : i64}
    : (tensor<2x4x3x6xf32>, tensor<3x3x2x6xf32>) -> tensor<6x2x3x2xf32>
  return %0 : tensor<6x2x3x2xf32>
}
""",
    "a convolution with reversed windows": """
func.func @main(%x: tensor<2x3x5x5xf32>, %k: tensor<4x3x2x3xf32>) -> tensor<2x4x4x3xf32> {
  %0 = stablehlo.convolution(%x, %k) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1],
    window = {reverse = [true, true]}
    {batch_group_count = 1 : i64, feature_group_count = 1 : i64}
    : (tensor<2x3x5x5xf32>, tensor<4x3x2x3xf32>) -> tensor<2x4x4x3xf32>
  return %0 : tensor<2x4x4x3xf32>
}
""",
    "a convolution whose windows are larger than the image": """
func.func @main(%x: tensor<2x3x1xf32>, %k: tensor<4x3x2xf32>) -> tensor<2x4x0xf32> {
  %0 = stablehlo.convolution(%x, %k) dim_numbers = [b, f, 0]x[o, i, 0]->[b, f, 0], window = {}
    {batch_group_count = 1 : i64, feature_group_count = 1 : i64}
    : (tensor<2x3x1xf32>, tensor<4x3x2xf32>) -> tensor<2x4x0xf32>
  return %0 : tensor<2x4x0xf32>
}
""",
    "dilated windows": """
func.func @main(%x: tensor<4x9xf32>) -> tensor<3x3xf32> {
  %z = stablehlo.constant dense<0.0> : tensor<f32>
  %0 = "stablehlo.reduce_window"(%x, %z) ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %1 = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %1 : tensor<f32>
  }) {window_dimensions = array<i64: 2, 3>, window_strides = array<i64: 1, 2>,
      window_dilations = array<i64: 1, 2>} : (tensor<4x9xf32>, tensor<f32>) -> tensor<3x3xf32>
  return %0 : tensor<3x3xf32>
}
""",
    "bits, counted and read as other types": """
func.func @main(%x: tensor<4x6xf32>, %i: tensor<4x6xi32>)
    -> (tensor<4x6xi32>, tensor<4x6xi32>, tensor<4x6xf32>, tensor<4x6xf32>, tensor<4x6x2xi16>,
        tensor<4x6xf32>) {
  %0 = stablehlo.popcnt %i : tensor<4x6xi32>
  %1 = stablehlo.count_leading_zeros %i : tensor<4x6xi32>
  %2 = stablehlo.round_nearest_afz %x : tensor<4x6xf32>
  %3 = stablehlo.cbrt %x : tensor<4x6xf32>
  %4 = stablehlo.bitcast_convert %x : (tensor<4x6xf32>) -> tensor<4x6x2xi16>
  %5 = stablehlo.bitcast_convert %4 : (tensor<4x6x2xi16>) -> tensor<4x6xf32>
  return %0, %1, %2, %3, %4, %5 : tensor<4x6xi32>, tensor<4x6xi32>, tensor<4x6xf32>,
      tensor<4x6xf32>, tensor<4x6x2xi16>, tensor<4x6xf32>
}
""",
    "reductions of nothing": """
func.func @main(%x: tensor<4x0xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %least = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %one = stablehlo.constant dense<1.0> : tensor<f32>
  %0 = stablehlo.reduce(%x init: %least) applies stablehlo.maximum across dimensions = [1]
      : (tensor<4x0xf32>, tensor<f32>) -> tensor<4xf32>
  %1 = stablehlo.reduce(%x init: %one) applies stablehlo.minimum across dimensions = [1]
      : (tensor<4x0xf32>, tensor<f32>) -> tensor<4xf32>
  return %0, %1 : tensor<4xf32>, tensor<4xf32>
}
""",
    **{
        f"a scatter by {name}": f"""
func.func @main(%x: tensor<5x3xf32>, %u: tensor<4x2xf32>) -> tensor<3x5xf32> {{
  %t = stablehlo.transpose %x, dims = [1, 0] : (tensor<5x3xf32>) -> tensor<3x5xf32>
  %at = stablehlo.constant dense<[[0, 1], [2, 3], [0, 2], [3, 0]]> : tensor<4x2xi32>
  %0 = "stablehlo.scatter"(%t, %at, %u) <{{scatter_dimension_numbers = #stablehlo.scatter<
      update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0, 1],
      index_vector_dim = 1>}}> ({{
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %1 = stablehlo.{name} %a, %b : tensor<f32>
    stablehlo.return %1 : tensor<f32>
  }}) : (tensor<3x5xf32>, tensor<4x2xi32>, tensor<4x2xf32>) -> tensor<3x5xf32>
  return %0 : tensor<3x5xf32>
}}
"""
        for name in ("multiply", "maximum", "minimum")
    },
    "windows of a dilated operand, of which some is taken off": """
func.func @main(%x: tensor<5xf32>) -> tensor<6xf32> {
  %z = stablehlo.constant dense<0.0> : tensor<f32>
  %0 = "stablehlo.reduce_window"(%x, %z) ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %1 = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %1 : tensor<f32>
  }) {window_dimensions = array<i64: 3>, base_dilations = array<i64: 2>,
      padding = dense<[[-2, 1]]> : tensor<1x2xi64>}
      : (tensor<5xf32>, tensor<f32>) -> tensor<6xf32>
  return %0 : tensor<6xf32>
}
""",
    "a choice that is the same for all elements": """
func.func @main(%x: tensor<4x3xf32>, %y: tensor<4xf32>) -> (tensor<4x3xf32>, tensor<4x3xf32>) {
  %c1 = arith.constant 1 : index
  %i = tensor.dim %x, %c1 : tensor<4x3xf32>
  %z = tensor.empty() : tensor<4x3xf32>
  %0:2 = linalg.generic {indexing_maps = [affine_map<(d0,d1)->(d0,d1)>, affine_map<(d0,d1)->(d0)>,
                       affine_map<(d0,d1)->(d0,d1)>, affine_map<(d0,d1)->(d0,d1)>],
      iterator_types = ["parallel","parallel"]}
      ins(%x, %y: tensor<4x3xf32>, tensor<4xf32>)
      outs(%z, %z: tensor<4x3xf32>, tensor<4x3xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32, %d: f32):
    %more = arith.cmpi sgt, %i, %c1 : index
    %s = arith.select %more, %b, %a : f32
    %t = arith.select %more, %a, %b : f32
    linalg.yield %s, %t : f32, f32
  } -> (tensor<4x3xf32>, tensor<4x3xf32>)
  return %0#0, %0#1 : tensor<4x3xf32>, tensor<4x3xf32>
}
""",
}

WRITTEN = {
    "diagonal": """
func.func @main(%x: tensor<4x4xf32>) -> tensor<4xf32> {
  %z = tensor.empty() : tensor<4xf32>
  %0 = linalg.generic {indexing_maps = [affine_map<(d0)->(d0,d0)>,
                       affine_map<(d0)->(d0)>],
      iterator_types = ["parallel"]}
      ins(%x: tensor<4x4xf32>) outs(%z: tensor<4xf32>) {
  ^bb0(%a: f32, %c: f32):
    %s = arith.addf %a, %a : f32
    linalg.yield %s : f32
  } -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
""",
    "maximum of signed bits": """
func.func @main(%x: tensor<4x4xi1>) -> tensor<4xi1> {
  %z = arith.constant dense<true> : tensor<4xi1>
  %0 = linalg.reduce {arith.maxsi} ins(%x: tensor<4x4xi1>) outs(%z: tensor<4xi1>) dimensions = [1]
  return %0 : tensor<4xi1>
}
""",
    "order of signed bits": """
func.func @main(%x: tensor<4xi1>, %y: tensor<4xi1>) -> tensor<4xi1> {
  %0 = arith.cmpi slt, %x, %y : tensor<4xi1>
  return %0 : tensor<4xi1>
}
""",
    "body of two ops": """
func.func @main(%x: tensor<4x4xf32>) -> tensor<4xf32> {
  %z = stablehlo.constant dense<0.0> : tensor<f32>
  %0 = stablehlo.reduce(%x init: %z) across dimensions = [1]
      : (tensor<4x4xf32>, tensor<f32>) -> tensor<4xf32>
   reducer(%a: tensor<f32>, %b: tensor<f32>) {
    %s = stablehlo.add %a, %b : tensor<f32>
    %t = stablehlo.negate %s : tensor<f32>
    stablehlo.return %t : tensor<f32>
  }
  return %0 : tensor<4xf32>
}
""",
}
"""Bodies that are no known reductions, and ops that StableHLO has otherwise."""


@pytest.mark.filterwarnings("ignore::shard_dialect.errors.ShardWarning")
def test_what_is_written_as_stablehlo_has_it(batch: Batch) -> None:
    for name, text in WRITTEN.items():
        batch.add(name, GRID + text)
    assert len(batch) == len(WRITTEN), batch.refused
    batch.check()


REFUSED = {
    "sum of bits": (
        "of elements of type i1",
        """
func.func @main(%x: tensor<8x5xi1>) -> tensor<8xi1> {
  %z = arith.constant dense<false> : tensor<8xi1>
  %0 = linalg.reduce {arith.addi} ins(%x: tensor<8x5xi1>) outs(%z: tensor<8xi1>) dimensions = [1]
  return %0 : tensor<8xi1>
}
""",
    ),
    "product of bits": (
        "of elements of type i1",
        """
func.func @main(%x: tensor<4x4xi1>, %y: tensor<4x4xi1>) -> tensor<4x4xi1> {
  %z = arith.constant dense<false> : tensor<4x4xi1>
  %0 = linalg.generic {indexing_maps = [affine_map<(d0,d1,d2)->(d0,d2)>,
                       affine_map<(d0,d1,d2)->(d2,d1)>,
                       affine_map<(d0,d1,d2)->(d0,d1)>],
      iterator_types = ["parallel","parallel","reduction"]}
      ins(%x,%y: tensor<4x4xi1>, tensor<4x4xi1>) outs(%z: tensor<4x4xi1>) {
  ^bb0(%a: i1, %b: i1, %c: i1):
    %m = arith.muli %a, %b : i1
    %s = arith.addi %c, %m : i1
    linalg.yield %s : i1
  } -> tensor<4x4xi1>
  return %0 : tensor<4x4xi1>
}
""",
    ),
    "total order": (
        "of bits, or with a meaning for what is no number",
        """
func.func @main(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xi1> {
  %0 = stablehlo.compare EQ, %x, %y, TOTALORDER : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xi1>
  return %0 : tensor<4xi1>
}
""",
    ),
    "wider result": (
        "its result has other elements than its operands",
        """
func.func @main(%x: tensor<1x8x4xi8>, %k: tensor<3x4x2xi8>) -> tensor<1x6x2xi32> {
  %c = stablehlo.constant dense<100> : tensor<1x8x4xi8>
  %y = stablehlo.maximum %x, %c : tensor<1x8x4xi8>
  %0 = stablehlo.convolution(%y, %k) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f],
      window = {}
    {batch_group_count = 1 : i64, feature_group_count = 1 : i64}
      : (tensor<1x8x4xi8>, tensor<3x4x2xi8>) -> tensor<1x6x2xi32>
  return %0 : tensor<1x6x2xi32>
}
""",
    ),
    "function without a body": (
        "@f has no body",
        """
func.func private @f(tensor<2xf32>) -> tensor<2xf32>
func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = func.call @f(%x) : (tensor<2xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}
""",
    ),
    "number in a tensor of unknown size": (
        "a tensor<?xf32> of one number cannot be written in Python",
        """
func.func @main(%x: tensor<4xf32>) -> tensor<f32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c9 = arith.constant 4 : index
  %one = arith.constant 1.0 : f32
  %z = arith.constant dense<0.0> : tensor<f32>
  %r = scf.for %i = %c0 to %c9 step %c1 iter_args(%s = %z) -> tensor<f32> {
    %e = tensor.empty(%i) : tensor<?xf32>
    %d = linalg.fill ins(%one : f32) outs(%e : tensor<?xf32>) -> tensor<?xf32>
    %n = linalg.reduce {arith.addf} ins(%d: tensor<?xf32>) outs(%s: tensor<f32>) dimensions = [0]
    scf.yield %n : tensor<f32>
  }
  return %r : tensor<f32>
}
""",
    ),
}


@pytest.mark.filterwarnings("ignore::shard_dialect.errors.ShardWarning")
def test_programs_that_are_right(batch: Batch) -> None:
    for number, text in enumerate(RIGHT.values()):
        batch.add(str(number), GRID + text)
    assert len(batch) == len(RIGHT), batch.refused
    batch.check()


@pytest.mark.parametrize("family", [gathers, scatters])
def test_lookups(batch: Batch, family: Family) -> None:
    for number, case in enumerate(drawn(family).values()):
        batch.add(f"lookup_{number}", f"{GRID}{case}")
    batch.check()
    assert len(batch) > 10, batch.refused


@pytest.mark.filterwarnings("ignore::shard_dialect.errors.ShardWarning")
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", REFUSED)
def test_programs_that_are_refused(name: str, target: Target) -> None:
    message, text = REFUSED[name]
    with pytest.raises(ShardError, match=rf"-:\d+:\d+: error: .*{re.escape(message)}$"):
        emit(GRID + text, target)


HALO = """
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> attributes {mesh.form = "local"} {
  %c = shard.process_linear_index on @g : index
  %i = arith.index_cast %c : index to i64
  %0 = shard.update_halo %x on @g split_axes = [[0]] halo_sizes = [%i, 1] : tensor<4xf32>
  return %0 : tensor<4xf32>
}
"""


def test_what_cannot_be_read_is_refused_in_its_place() -> None:
    message = "-:6:8: error: 'shard.update_halo' op has a halo size that the program computes"
    with pytest.raises(ShardError, match=f"^{message}"):
        emit(GRID + HALO, "torch", "canonicalize")


BITS = """
func.func @main(%x: tensor<4xELEMENT>) -> tensor<4xELEMENT> attributes {mesh.form = "local"} {
  %0 = shard.all_reduce %x on @g grid_axes = [0] : tensor<4xELEMENT> -> tensor<4xELEMENT>
  return %0 : tensor<4xELEMENT>
}
"""


@pytest.mark.parametrize(
    ("element", "target", "message"),
    [
        ("i1", "mpi4py", "a reduction sum of elements of type i1"),
        ("i1", "torch", "a reduction sum of elements of type i1"),
        ("i4", "torch", "elements of type i4 have no torch type"),
        ("i4", "mpi4py", "elements of type i4 have no mpi4py type"),
        ("f8E4M3FN", "torch", "elements of type f8E4M3FN have no torch type"),
        ("f8E5M2", "mpi4py", "elements of type f8E5M2 have no mpi4py type"),
    ],
)
def test_elements_that_cannot_be_sent(element: str, target: Target, message: str) -> None:
    with pytest.raises(ShardError, match=rf"{message}$"):
        emit(GRID + BITS.replace("ELEMENT", element), target, "canonicalize")
