// Unsigned integers are signless ones from here on, but at the function's boundary, which says what they mean.
//
// RUN: shard-opt %s --lower | filecheck %s

shard.grid @g(shape = 2)

// CHECK: func.func private @mesh_all_reduce_0(memref<4xi32>, memref<4xi32>)
// CHECK-LABEL: func.func @sum(
// CHECK-SAME: memref<4xi32> {mesh.argument = tensor<4xui32>}
// CHECK-SAME: memref<4xi32> {mesh.result = tensor<4xui32>}
// CHECK: arith.shrui
func.func @sum(%x: tensor<4xui32>) -> tensor<4xui32> attributes {mesh.form = "local"} {
  %two = stablehlo.constant dense<2> : tensor<4xui32>
  %0 = shard.all_reduce %x on @g grid_axes = [0] : tensor<4xui32> -> tensor<4xui32>
  %1 = stablehlo.shift_right_logical %0, %two : tensor<4xui32>
  return %1 : tensor<4xui32>
}

// The runtimes know of signed maxima only: the first bits are turned over, and back.
// CHECK-LABEL: func.func @largest(
// CHECK: arith.xori
// CHECK: call @mesh_all_reduce_1
// CHECK: arith.xori
func.func @largest(%x: tensor<4xui8>) -> tensor<4xui8> attributes {mesh.form = "local"} {
  %0 = shard.all_reduce %x on @g grid_axes = [0] reduction = max : tensor<4xui8> -> tensor<4xui8>
  return %0 : tensor<4xui8>
}

// CHECK-LABEL: func.func @around(
// CHECK: scf.while
// CHECK-SAME: memref<i32>
func.func @around(%x: tensor<ui32>) -> tensor<ui32> attributes {mesh.form = "local"} {
  %ten = stablehlo.constant dense<10> : tensor<ui32>
  %0 = stablehlo.while(%i = %x) : tensor<ui32>
  cond {
    %less = stablehlo.compare LT, %i, %ten : (tensor<ui32>, tensor<ui32>) -> tensor<i1>
    stablehlo.return %less : tensor<i1>
  } do {
    %next = stablehlo.add %i, %i : tensor<ui32>
    stablehlo.return %next : tensor<ui32>
  }
  return %0 : tensor<ui32>
}
