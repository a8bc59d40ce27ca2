// Each device of a group gives a part of one dimension to each, who put them along another.
//
// RUN: shard-opt %s --verify-roundtrip | filecheck %s

shard.grid @g(shape = 2x2x4)
shard.grid @open(shape = ?x?)

// CHECK-LABEL: func.func @known
func.func @known(%x: tensor<4x8xf32>) {
  // CHECK: shard.all_to_all %arg0 on @g grid_axes = [2] split_axis = 0 concat_axis = 1
  // CHECK-SAME: tensor<4x8xf32> -> tensor<1x32xf32>
  %0 = shard.all_to_all %x on @g grid_axes = [2] split_axis = 0 concat_axis = 1 : tensor<4x8xf32> -> tensor<1x32xf32>
  // CHECK: shard.all_to_all %arg0 on @g grid_axes = [1, 0] split_axis = 1 concat_axis = 1
  // CHECK-SAME: tensor<4x8xf32> -> tensor<4x8xf32>
  %1 = shard.all_to_all %x on @g grid_axes = [1, 0] split_axis = 1 concat_axis = 1 : tensor<4x8xf32> -> tensor<4x8xf32>
  // CHECK: shard.all_to_all %arg0 on @g split_axis = 1 concat_axis = 0
  // CHECK-SAME: tensor<4x8xf32> -> tensor<4x8xf32>
  %2 = shard.all_to_all %x on @g split_axis = 1 concat_axis = 0 : tensor<4x8xf32> -> tensor<4x8xf32>
  return
}

// CHECK-LABEL: func.func @unknown_size
func.func @unknown_size(%x: tensor<4x8xf32>) {
  // CHECK: shard.all_to_all %arg0 on @g grid_axes = [0] split_axis = 1 concat_axis = 0
  // CHECK-SAME: tensor<4x8xf32> -> tensor<8x?xf32>
  %0 = shard.all_to_all %x on @g grid_axes = [0] split_axis = 1 concat_axis = 0 : tensor<4x8xf32> -> tensor<8x?xf32>
  return
}

// CHECK-LABEL: func.func @unknown_tensor
func.func @unknown_tensor(%x: tensor<?x?xf32>) {
  // CHECK: shard.all_to_all %arg0 on @g grid_axes = [0] split_axis = 1 concat_axis = 0
  // CHECK-SAME: tensor<?x?xf32> -> tensor<?x?xf32>
  %0 = shard.all_to_all %x on @g grid_axes = [0] split_axis = 1 concat_axis = 0 : tensor<?x?xf32> -> tensor<?x?xf32>
  return
}

// CHECK-LABEL: func.func @unknown_group
func.func @unknown_group(%x: tensor<3xi8>) {
  // CHECK: shard.all_to_all %arg0 on @open grid_axes = [0] split_axis = 0 concat_axis = 0
  // CHECK-SAME: tensor<3xi8> -> tensor<3xi8>
  %0 = shard.all_to_all %x on @open grid_axes = [0] split_axis = 0 concat_axis = 0 : tensor<3xi8> -> tensor<3xi8>
  return
}
