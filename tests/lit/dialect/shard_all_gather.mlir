// Shards along a dimension are put together on every device of a group.
//
// RUN: shard-opt %s --verify-roundtrip | filecheck %s

shard.grid @g(shape = 2x2x4)
shard.grid @open(shape = ?x?)

// CHECK-LABEL: func.func @known
func.func @known(%x: tensor<4x8xf32>) {
  // CHECK: shard.all_gather %arg0 on @g grid_axes = [2] gather_axis = 1
  // CHECK-SAME: tensor<4x8xf32> -> tensor<4x32xf32>
  %0 = shard.all_gather %x on @g grid_axes = [2] gather_axis = 1 : tensor<4x8xf32> -> tensor<4x32xf32>
  // CHECK: shard.all_gather %arg0 on @g grid_axes = [2, 0] gather_axis = 0
  // CHECK-SAME: tensor<4x8xf32> -> tensor<32x8xf32>
  %1 = shard.all_gather %x on @g grid_axes = [2, 0] gather_axis = 0 : tensor<4x8xf32> -> tensor<32x8xf32>
  // CHECK: shard.all_gather %arg0 on @g gather_axis = 0
  // CHECK-SAME: tensor<4x8xf32> -> tensor<4x8xf32>
  %2 = shard.all_gather %x on @g gather_axis = 0 : tensor<4x8xf32> -> tensor<4x8xf32>
  return
}

// CHECK-LABEL: func.func @unknown_tensor
func.func @unknown_tensor(%x: tensor<?x?xf32>) {
  // CHECK: shard.all_gather %arg0 on @g grid_axes = [2] gather_axis = 1
  // CHECK-SAME: tensor<?x?xf32> -> tensor<?x?xf32>
  %0 = shard.all_gather %x on @g grid_axes = [2] gather_axis = 1 : tensor<?x?xf32> -> tensor<?x?xf32>
  return
}

// CHECK-LABEL: func.func @unknown_group
func.func @unknown_group(%x: tensor<4x8xf32>) {
  // CHECK: shard.all_gather %arg0 on @open grid_axes = [1] gather_axis = 1
  // CHECK-SAME: tensor<4x8xf32> -> tensor<4x?xf32>
  %0 = shard.all_gather %x on @open grid_axes = [1] gather_axis = 1 : tensor<4x8xf32> -> tensor<4x?xf32>
  return
}

// CHECK-LABEL: func.func @buffer
func.func @buffer(%x: memref<4x8xf32>) {
  // CHECK: shard.all_gather %arg0 on @g grid_axes = [0] gather_axis = 0
  // CHECK-SAME: memref<4x8xf32> -> memref<8x8xf32>
  %0 = shard.all_gather %x on @g grid_axes = [0] gather_axis = 0 : memref<4x8xf32> -> memref<8x8xf32>
  return
}
