// REQUIRES: jaxlib
// In a manual computation devices hold different tensors along the manual axes: a sum along a free
// one is not made of parts along these, though that would send less.
//
// RUN: shard-opt %s --spmd | filecheck %s

// CHECK-LABEL: func.func @main(
// CHECK: stablehlo.dot_general
// CHECK-NOT: grid_axes = [0]
// CHECK: return
sdy.mesh @mesh = <["a"=2, "b"=4]>
func.func @main(%x: tensor<8x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"b"}]>},
                %w: tensor<16x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"b"}, {}]>})
    -> tensor<8x16xf32> {
  %0 = sdy.manual_computation(%x, %w)
      in_shardings=[<@mesh, [{"a", ?}, {?}]>, <@mesh, [{?}, {?}]>]
      out_shardings=[<@mesh, [{"a", ?}, {?}]>] manual_axes={"a"}
      (%part: tensor<4x16xf32>, %all: tensor<16x16xf32>) {
    %1 = stablehlo.dot_general %part, %all, contracting_dims = [1] x [0]
      : (tensor<4x16xf32>, tensor<16x16xf32>) -> tensor<4x16xf32>
    %2 = stablehlo.tanh %1 : tensor<4x16xf32>
    sdy.return %2 : tensor<4x16xf32>
  } : (tensor<8x16xf32>, tensor<16x16xf32>) -> tensor<8x16xf32>
  return %0 : tensor<8x16xf32>
}
