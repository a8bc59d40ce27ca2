// A reduction whose result is on one device of a group.
//
// RUN: shard-opt %s --verify-roundtrip | filecheck %s

shard.grid @g(shape = 2x2x4)
shard.grid @open(shape = ?x?)

// CHECK-LABEL: func.func @known
func.func @known(%x: tensor<4x8xf32>) {
  // CHECK: shard.reduce %arg0 on @g grid_axes = [0, 2] root = [1, 3]
  // CHECK-SAME: (tensor<4x8xf32>) -> tensor<4x8xf32>
  %0 = shard.reduce %x on @g grid_axes = [0, 2] root = [1, 3] : (tensor<4x8xf32>) -> tensor<4x8xf32>
  // CHECK: shard.reduce %arg0 on @g grid_axes = [0, 2] reduction = max root = [0, 1]
  // CHECK-SAME: (tensor<4x8xf32>) -> tensor<4x8xf64>
  %1 = shard.reduce %x on @g grid_axes = [0, 2] reduction = max root = [0, 1] : (tensor<4x8xf32>) -> tensor<4x8xf64>
  return
}

// CHECK-LABEL: func.func @unknown
func.func @unknown(%x: tensor<4x8xf32>, %i: index) {
  // CHECK: shard.reduce %arg0 on @g grid_axes = [0, 2] root = [1, %arg1
  %0 = shard.reduce %x on @g grid_axes = [0, 2] root = [1, %i] : (tensor<4x8xf32>, index) -> tensor<4x8xf32>
  return
}

// CHECK-LABEL: func.func @wider_integers
func.func @wider_integers(%x: tensor<2xi8>) {
  // CHECK: shard.reduce %arg0 on @g grid_axes = [0] root = [0]
  // CHECK-SAME: (tensor<2xi8>) -> tensor<2xi16>
  %0 = shard.reduce %x on @g grid_axes = [0] root = [0] : (tensor<2xi8>) -> tensor<2xi16>
  return
}
