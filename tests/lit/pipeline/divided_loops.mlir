// A loop over four layers becomes one over two layers in each stage, which has their rows of the weights.
//
// RUN: shard-opt %s --pipeline="stages=2 microbatches=4" -o %t.mlir && filecheck %s < %t.mlir
// RUN: shard-run %t.mlir --check --reference=%s

// CHECK: mesh.transfer %arg1 {cluster = @stage0, offsets = [0, 0, 0]} : tensor<4x4x4xf32> -> tensor<2x4x4xf32>
// CHECK: mesh.transfer %arg1 {cluster = @stage1, offsets = [2, 0, 0]} : tensor<4x4x4xf32> -> tensor<2x4x4xf32>
// CHECK: stablehlo.while
// CHECK: stablehlo.while
// CHECK: stablehlo.dot_general
// CHECK: stablehlo.while
// CHECK: stablehlo.dot_general
// CHECK-NOT: stablehlo.dot_general
shard.grid @g(shape = 2)
func.func @main(%x: tensor<8x4xf32>, %ws: tensor<4x4x4xf32>) -> tensor<8x4xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %0:2 = stablehlo.while(%i = %zero, %h = %x) : tensor<i32>, tensor<8x4xf32>
  cond {
    %four = stablehlo.constant dense<4> : tensor<i32>
    %1 = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %1 : tensor<i1>
  } do {
    %one = stablehlo.constant dense<1> : tensor<i32>
    %s = stablehlo.dynamic_slice %ws, %i, %zero, %zero, sizes = [1, 4, 4] : (tensor<4x4x4xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x4x4xf32>
    %w = stablehlo.reshape %s : (tensor<1x4x4xf32>) -> tensor<4x4xf32>
    %2 = stablehlo.dot_general %h, %w, contracting_dims = [1] x [0] : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
    %next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %next, %2 : tensor<i32>, tensor<8x4xf32>
  }
  return %0#1 : tensor<8x4xf32>
}
