// A reduction of which each device of a group keeps a part of a dimension.
//
// RUN: shard-opt %s --verify-roundtrip | filecheck %s

shard.grid @g(shape = 2x2x4)
shard.grid @open(shape = ?x?)

// CHECK-LABEL: func.func @known
func.func @known(%x: tensor<4x8xf32>) {
  // CHECK: shard.reduce_scatter %arg0 on @g grid_axes = [2] scatter_{{dim|axis}} = 1
  // CHECK-SAME: tensor<4x8xf32> -> tensor<4x2xf32>
  %0 = shard.reduce_scatter %x on @g grid_axes = [2] scatter_dim = 1 : tensor<4x8xf32> -> tensor<4x2xf32>
  // CHECK: shard.reduce_scatter %arg0 on @g grid_axes = [2] reduction = max scatter_{{dim|axis}} = 0
  // CHECK-SAME: tensor<4x8xf32> -> tensor<1x8xf64>
  %1 = shard.reduce_scatter %x on @g grid_axes = [2] reduction = max scatter_dim = 0 : tensor<4x8xf32> -> tensor<1x8xf64>
  return
}

// CHECK-LABEL: func.func @unknown
func.func @unknown(%x: tensor<?x?xf32>) {
  // CHECK: shard.reduce_scatter %arg0 on @open grid_axes = [0, 1] scatter_{{dim|axis}} = 0
  // CHECK-SAME: tensor<?x?xf32> -> tensor<?x?xf64>
  %0 = shard.reduce_scatter %x on @open grid_axes = [0, 1] scatter_dim = 0 : tensor<?x?xf32> -> tensor<?x?xf64>
  return
}

// CHECK-LABEL: func.func @buffer
func.func @buffer(%x: memref<4x8xf32>) {
  // CHECK: shard.reduce_scatter %arg0 on @g grid_axes = [0] scatter_{{dim|axis}} = 0
  // CHECK-SAME: memref<4x8xf32> -> memref<2x8xf32>
  %0 = shard.reduce_scatter %x on @g grid_axes = [0] scatter_dim = 0 : memref<4x8xf32> -> memref<2x8xf32>
  return
}
