// What is read long after it is made is computed again, if it is cheap and its operands are there anyway.
//
// RUN: shard-opt %s --rematerialize | filecheck %s
// RUN: shard-opt %s --rematerialize --spmd --canonicalize --cse | filecheck %s --check-prefix=KEPT
// RUN: shard-run %s --check | filecheck %s --check-prefix=NUMBERS
// RUN: shard-opt %s --rematerialize -o %t && shard-run %t --check | filecheck %s --check-prefix=NUMBERS

shard.grid @g(shape = 2)

// CHECK-LABEL: @main
// CHECK: %[[H:.*]] = stablehlo.dot_general %arg0, %arg1
// CHECK: %[[T:.*]] = stablehlo.tanh %[[H]]
// CHECK: %[[W:.*]] = stablehlo.dot_general %[[T]], %arg2
// CHECK: %[[R:.*]] = stablehlo.dot_general
// CHECK: %[[B:.*]] = stablehlo.optimization_barrier %[[H]]
// CHECK: %[[U:.*]] = stablehlo.tanh %[[B]]
// CHECK: stablehlo.multiply %[[R]], %[[U]]
// CHECK: stablehlo.add {{.*}}, %[[H]]
// KEPT: stablehlo.tanh
// KEPT: stablehlo.tanh
// NUMBERS: check passed
func.func @main(%x: tensor<8x4xf32> {mesh.sharding = #mesh.shard<@g, [[0], []]>}, %w: tensor<4x16xf32>,
                %up: tensor<16x64xf32>, %down: tensor<64x16xf32>) -> tensor<8x16xf32> {
  %h = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<8x4xf32>, tensor<4x16xf32>) -> tensor<8x16xf32>
  %t = stablehlo.tanh %h : tensor<8x16xf32>
  %wide = stablehlo.dot_general %t, %up, contracting_dims = [1] x [0] : (tensor<8x16xf32>, tensor<16x64xf32>) -> tensor<8x64xf32>
  %e = stablehlo.exponential %wide : tensor<8x64xf32>
  %r = stablehlo.dot_general %e, %down, contracting_dims = [1] x [0] : (tensor<8x64xf32>, tensor<64x16xf32>) -> tensor<8x16xf32>
  %m = stablehlo.multiply %r, %t : tensor<8x16xf32>
  // Something else reads %h late, so that it is stored anyway.
  %y = stablehlo.add %m, %h : tensor<8x16xf32>
  return %y : tensor<8x16xf32>
}

// Nothing is read after the peak that a cheap op has made: %t is, but its operand would be stored in its place.
// CHECK-LABEL: @nothing_to_do
// CHECK-NOT: optimization_barrier
func.func private @nothing_to_do(%x: tensor<8x16xf32>, %up: tensor<16x64xf32>, %down: tensor<64x16xf32>) -> tensor<8x16xf32> {
  %h = stablehlo.dot_general %x, %x, contracting_dims = [1] x [1] : (tensor<8x16xf32>, tensor<8x16xf32>) -> tensor<8x8xf32>
  %z = stablehlo.dot_general %h, %x, contracting_dims = [1] x [0] : (tensor<8x8xf32>, tensor<8x16xf32>) -> tensor<8x16xf32>
  %t = stablehlo.tanh %z : tensor<8x16xf32>
  %wide = stablehlo.dot_general %t, %up, contracting_dims = [1] x [0] : (tensor<8x16xf32>, tensor<16x64xf32>) -> tensor<8x64xf32>
  %e = stablehlo.exponential %wide : tensor<8x64xf32>
  %r = stablehlo.dot_general %e, %down, contracting_dims = [1] x [0] : (tensor<8x64xf32>, tensor<64x16xf32>) -> tensor<8x16xf32>
  %m = stablehlo.multiply %r, %t : tensor<8x16xf32>
  return %m : tensor<8x16xf32>
}
