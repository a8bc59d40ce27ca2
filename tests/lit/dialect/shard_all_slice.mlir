// Each device of a group keeps its part of a dimension.
//
// RUN: shard-opt %s --verify-roundtrip | filecheck %s

shard.grid @g(shape = 2x2x4)
shard.grid @open(shape = ?x?)

// CHECK-LABEL: func.func @known
func.func @known(%x: tensor<4x8xf32>) {
  // CHECK: shard.all_slice %arg0 on @g grid_axes = [2] slice_axis = 1
  // CHECK-SAME: tensor<4x8xf32> -> tensor<4x2xf32>
  %0 = shard.all_slice %x on @g grid_axes = [2] slice_axis = 1 : tensor<4x8xf32> -> tensor<4x2xf32>
  // CHECK: shard.all_slice %arg0 on @g slice_axis = 0
  // CHECK-SAME: tensor<4x8xf32> -> tensor<4x8xf32>
  %1 = shard.all_slice %x on @g slice_axis = 0 : tensor<4x8xf32> -> tensor<4x8xf32>
  return
}

// CHECK-LABEL: func.func @unknown
func.func @unknown(%x: tensor<?x?xf32>) {
  // CHECK: shard.all_slice %arg0 on @open grid_axes = [0, 1] slice_axis = 0
  // CHECK-SAME: tensor<?x?xf32> -> tensor<?x?xf32>
  %0 = shard.all_slice %x on @open grid_axes = [0, 1] slice_axis = 0 : tensor<?x?xf32> -> tensor<?x?xf32>
  return
}
