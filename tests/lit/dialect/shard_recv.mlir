// A tensor comes from a device of the group, named or not.
//
// RUN: shard-opt %s --verify-roundtrip | filecheck %s

shard.grid @g(shape = 2x2x4)
shard.grid @open(shape = ?x?)

// CHECK-LABEL: func.func @known
func.func @known(%x: tensor<4x8xf32>) {
  // CHECK: shard.recv %arg0 on @g grid_axes = [0, 2] source = [1, 3]
  // CHECK-SAME: (tensor<4x8xf32>) -> tensor<4x8xf32>
  %0 = shard.recv %x on @g grid_axes = [0, 2] source = [1, 3] : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return
}

// CHECK-LABEL: func.func @unknown
func.func @unknown(%x: tensor<4x8xf32>, %i: index) {
  // CHECK: shard.recv %arg0 on @g grid_axes = [0, 2] source = [1, %arg1
  %0 = shard.recv %x on @g grid_axes = [0, 2] source = [1, %i] : (tensor<4x8xf32>, index) -> tensor<4x8xf32>
  return
}

// CHECK-LABEL: func.func @any
func.func @any(%x: tensor<4x8xf32>) {
  // CHECK: shard.recv %arg0 on @g grid_axes = [0, 2]
  // CHECK-SAME: (tensor<4x8xf32>) -> tensor<4x8xf32>
  %0 = shard.recv %x on @g grid_axes = [0, 2] : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return
}
