// Tensors move along one axis of the group's, any way and round or not.
//
// RUN: shard-opt %s --verify-roundtrip | filecheck %s

shard.grid @g(shape = 2x2x4)
shard.grid @open(shape = ?x?)

// CHECK-LABEL: func.func @shift
func.func @shift(%x: tensor<4x8xf32>) {
  // CHECK: shard.shift %arg0 on @g grid_axes = [0, 2] shift_axis = 2 offset = -2 rotate
  // CHECK-SAME: tensor<4x8xf32> -> tensor<4x8xf32>
  %0 = shard.shift %x on @g grid_axes = [0, 2] shift_axis = 2 offset = -2 rotate : tensor<4x8xf32> -> tensor<4x8xf32>
  // CHECK: shard.shift %arg0 on @g grid_axes = [1] shift_axis = 1 offset = 5
  // CHECK-SAME: tensor<4x8xf32> -> tensor<4x8xf32>
  %1 = shard.shift %x on @g grid_axes = [1] shift_axis = 1 offset = 5 : tensor<4x8xf32> -> tensor<4x8xf32>
  // CHECK: shard.shift %arg0 on @open grid_axes = [0] shift_axis = 0 offset = 0 rotate
  // CHECK-SAME: tensor<4x8xf32> -> tensor<4x8xf32>
  %2 = shard.shift %x on @open grid_axes = [0] shift_axis = 0 offset = 0 rotate : tensor<4x8xf32> -> tensor<4x8xf32>
  return
}
