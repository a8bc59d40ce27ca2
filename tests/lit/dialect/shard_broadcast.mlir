// One device's tensor on every device of its group.
//
// RUN: shard-opt %s --verify-roundtrip | filecheck %s

shard.grid @g(shape = 2x2x4)
shard.grid @open(shape = ?x?)

// CHECK-LABEL: func.func @known
func.func @known(%x: tensor<4x8xf32>) {
  // CHECK: shard.broadcast %arg0 on @g grid_axes = [0, 2] root = [1, 3]
  // CHECK-SAME: (tensor<4x8xf32>) -> tensor<4x8xf32>
  %0 = shard.broadcast %x on @g grid_axes = [0, 2] root = [1, 3] : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return
}

// CHECK-LABEL: func.func @unknown
func.func @unknown(%x: tensor<4x8xf32>, %i: index) {
  // CHECK: shard.broadcast %arg0 on @g grid_axes = [0, 2] root = [1, %arg1
  %0 = shard.broadcast %x on @g grid_axes = [0, 2] root = [1, %i] : (tensor<4x8xf32>, index) -> tensor<4x8xf32>
  return
}

// CHECK-LABEL: func.func @unknown_grid
func.func @unknown_grid(%x: tensor<4x8xf32>) {
  // CHECK: shard.broadcast %arg0 on @open grid_axes = [1] root = [7]
  // CHECK-SAME: (tensor<4x8xf32>) -> tensor<4x8xf32>
  %0 = shard.broadcast %x on @open grid_axes = [1] root = [7] : (tensor<4x8xf32>) -> tensor<4x8xf32>
  // CHECK: shard.broadcast %arg0 on @g root = []
  // CHECK-SAME: (tensor<4x8xf32>) -> tensor<4x8xf32>
  %1 = shard.broadcast %x on @g root = [] : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return
}
