// One device's tensor is dealt to the devices of its group along a dimension.
//
// RUN: shard-opt %s --verify-roundtrip | filecheck %s

shard.grid @g(shape = 2x2x4)
shard.grid @open(shape = ?x?)

// CHECK-LABEL: func.func @known
func.func @known(%x: tensor<4x8xf32>) {
  // CHECK: shard.scatter %arg0 on @g grid_axes = [2] scatter_{{dim|axis}} = 1 root = [1]
  // CHECK-SAME: (tensor<4x8xf32>) -> tensor<4x2xf32>
  %0 = shard.scatter %x on @g grid_axes = [2] scatter_dim = 1 root = [1] : (tensor<4x8xf32>) -> tensor<4x2xf32>
  return
}

// CHECK-LABEL: func.func @unknown_root
func.func @unknown_root(%x: tensor<8xi8>, %i: index) {
  // CHECK: shard.scatter %arg0 on @g grid_axes = [0, 2] scatter_{{dim|axis}} = 0 root = [1, %arg1
  %0 = shard.scatter %x on @g grid_axes = [0, 2] scatter_dim = 0 root = [1, %i] : (tensor<8xi8>, index) -> tensor<1xi8>
  return
}

// CHECK-LABEL: func.func @unknown
func.func @unknown(%x: tensor<?x?xf32>) {
  // CHECK: shard.scatter %arg0 on @open grid_axes = [0, 1] scatter_{{dim|axis}} = 0 root = [1, 2]
  // CHECK-SAME: (tensor<?x?xf32>) -> tensor<?x?xf32>
  %0 = shard.scatter %x on @open grid_axes = [0, 1] scatter_dim = 0 root = [1, 2] : (tensor<?x?xf32>) -> tensor<?x?xf32>
  return
}
