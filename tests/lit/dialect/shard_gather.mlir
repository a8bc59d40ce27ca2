// Shards along a dimension are put together on one device of a group.
//
// RUN: shard-opt %s --verify-roundtrip | filecheck %s

shard.grid @g(shape = 2x2x4)
shard.grid @open(shape = ?x?)

// CHECK-LABEL: func.func @known
func.func @known(%x: tensor<4x8xf32>) {
  // CHECK: shard.gather %arg0 on @g grid_axes = [0, 2] gather_axis = 0 root = [1, 3]
  // CHECK-SAME: (tensor<4x8xf32>) -> tensor<32x8xf32>
  %0 = shard.gather %x on @g grid_axes = [0, 2] gather_axis = 0 root = [1, 3] : (tensor<4x8xf32>) -> tensor<32x8xf32>
  return
}

// CHECK-LABEL: func.func @unknown
func.func @unknown(%x: tensor<4x8xf32>, %i: index) {
  // CHECK: shard.gather %arg0 on @g grid_axes = [0, 2] gather_axis = 0 root = [1, %arg1
  %0 = shard.gather %x on @g grid_axes = [0, 2] gather_axis = 0 root = [1, %i] : (tensor<4x8xf32>, index) -> tensor<32x8xf32>
  return
}
