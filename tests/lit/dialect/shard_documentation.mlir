// The ops as upstream's documentation spells them: missing types, `<max>`, `scatter_axis`, one name
// and one type for two indices. Printed is what the installed bindings parse.
//
// RUN: shard-opt %s --allow-unregistered-dialect | filecheck %s
// RUN: shard-opt %s --allow-unregistered-dialect | shard-opt --allow-unregistered-dialect | filecheck %s

shard.grid @grid0(shape = 2x2x4)
shard.grid @square(shape = 2x2)
shard.grid @three(shape = 3)
shard.grid @line(shape = 2x4)
shard.grid @wide(shape = 10x20x30)
shard.grid @grid1d_4(shape = 4)

// CHECK-LABEL: func.func @shardings
func.func @shardings(%x: tensor<4x8xf32>, %y: tensor<4x14xf32>) {
  // CHECK{LITERAL}: shard.sharding @grid0 split_axes = [[]] : !shard.sharding
  %replicated = shard.sharding @grid0 split_axes = [[]]
  // CHECK{LITERAL}: shard.sharding @grid0 split_axes = [[0]] : !shard.sharding
  %rows = shard.sharding @grid0 split_axes = [[0]]
  // CHECK: shard.shard %arg0 to %{{.*}} : tensor<4x8xf32>
  %0 = shard.shard %x to %rows : tensor<4x8xf32>
  // CHECK{LITERAL}: shard.sharding @grid0 split_axes = [[0]] halo_sizes = [1, 2] : !shard.sharding
  %halo = shard.sharding @grid0 split_axes = [[0]] halo_sizes = [1, 2]
  // CHECK: shard.shard %arg0 to %{{.*}} : tensor<4x8xf32>
  %1 = shard.shard %x to %halo : tensor<4x8xf32>
  // CHECK{LITERAL}: split_axes = [[], [0]] sharded_dims_offsets = [0, 2, 5, 9, 14] : !shard.sharding
  %uneven = shard.sharding @grid1d_4 split_axes = [[], [0]] sharded_dims_offsets = [0, 2, 5, 9, 14]
  // CHECK: shard.shard %arg1 to %{{.*}} : tensor<4x14xf32>
  %2 = shard.shard %y to %uneven : tensor<4x14xf32>
  return
}

// CHECK-LABEL: func.func @annotated
func.func @annotated(%x: tensor<4x8xf32>, %y: tensor<16x8xf32>, %z: tensor<4x8xf32>) {
  %s0 = shard.sharding @grid0 split_axes = [[0]]
  %s1 = shard.sharding @grid0 split_axes = [[1]]
  %s2 = shard.sharding @grid0 split_axes = [[2]]
  // CHECK: [[OWN:%.*]] = shard.shard %arg0 to %{{.*}} : tensor<4x8xf32>
  %0 = shard.shard %x to %s0 : tensor<4x8xf32>
  // CHECK: [[FIRST:%.*]] = shard.shard [[OWN]] to %{{.*}} annotate_for_users : tensor<4x8xf32>
  %1 = shard.shard %0 to %s1 annotate_for_users : tensor<4x8xf32>
  // CHECK: [[SECOND:%.*]] = shard.shard [[OWN]] to %{{.*}} annotate_for_users : tensor<4x8xf32>
  %2 = shard.shard %0 to %s2 annotate_for_users : tensor<4x8xf32>
  // CHECK: "op0"([[FIRST]])
  "op0"(%1) : (tensor<4x8xf32>) -> ()
  // CHECK: "op1"([[SECOND]])
  "op1"(%2) : (tensor<4x8xf32>) -> ()
  // CHECK: shard.shard %arg1 to %{{.*}} annotate_for_users : tensor<16x8xf32>
  %3 = shard.shard %y to %s0 annotate_for_users : tensor<16x8xf32>
  // CHECK: shard.shard %arg2 to %{{.*}} annotate_for_users : tensor<4x8xf32>
  %4 = shard.shard %z to %s0 annotate_for_users : tensor<4x8xf32>
  return
}

// CHECK-LABEL: func.func @indices
func.func @indices() -> (index, index, index, index) {
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %c3 = arith.constant 3 : index
  // CHECK: shard.process_linear_index on @wide : index
  %here = shard.process_linear_index on @wide : index
  // CHECK: %[[DOWN:.*]], %[[UP:.*]] = shard.neighbors_linear_indices on @wide[%c1, %c2, %c3] split_axes = [1] : index, index
  %idx = shard.neighbors_linear_indices on @wide[%c1, %c2, %c3] split_axes = [1] : index
  // CHECK: shard.neighbors_linear_indices {{.*}} split_axes = [0] : index, index
  %a, %b = shard.neighbors_linear_indices on @wide[%c1, %c2, %c3] split_axes = [0] : index
  // CHECK: return %{{.*}}, %[[DOWN]], %[[DOWN]], %[[UP]]
  return %here, %idx, %idx#0, %idx#1 : index, index, index, index
}

// CHECK-LABEL: func.func @whole_group
func.func @whole_group(%x: tensor<2x2xi8>, %y: tensor<3x4xf32>, %z: tensor<2x4xi8>,
                       %t: tensor<3x2xi8>, %f: tensor<2x2xf32>) {
  // CHECK: shard.all_gather %arg0 on @square grid_axes = [1] gather_axis = 1 : tensor<2x2xi8> -> tensor<2x4xi8>
  %0 = shard.all_gather %x on @square grid_axes = [1] gather_axis = 1
      : tensor<2x2xi8> -> tensor<2x4xi8>
  // CHECK: shard.all_reduce %arg1 on @square grid_axes = [1, 0] reduction = max : tensor<3x4xf32> -> tensor<3x4xf64>
  %1 = shard.all_reduce %y on @square grid_axes = [1, 0] reduction = <max>
      : tensor<3x4xf32> -> tensor<3x4xf64>
  // CHECK: shard.all_slice %arg2 on @square grid_axes = [1] slice_axis = 1 : tensor<2x4xi8> -> tensor<2x2xi8>
  %2 = shard.all_slice %z on @square grid_axes = [1] slice_axis = 1
      : tensor<2x4xi8> -> tensor<2x2xi8>
  // CHECK: shard.all_to_all %arg3 on @three grid_axes = [0] split_axis = 0 concat_axis = 0 : tensor<3x2xi8> -> tensor<3x2xi8>
  %3 = shard.all_to_all %t on @three grid_axes = [0]
      split_axis = 0 concat_axis = 0
      : tensor<3x2xi8> -> tensor<3x2xi8>
  // CHECK: shard.reduce_scatter %arg4 on @square grid_axes = [1] reduction = max scatter_{{dim|axis}} = 0 : tensor<2x2xf32> -> tensor<1x2xf64>
  %4 = shard.reduce_scatter %f on @square grid_axes = [1]
      reduction = <max> scatter_axis = 0
      : tensor<2x2xf32> -> tensor<1x2xf64>
  return
}

// CHECK-LABEL: func.func @one_device_of_a_group
func.func @one_device_of_a_group(%x: tensor<2xi8>, %y: tensor<2x2xi8>, %z: tensor<3x4xf32>) {
  // CHECK: shard.broadcast %arg0 on @square grid_axes = [0] root = [0] : (tensor<2xi8>) -> tensor<2xi8>
  %0 = shard.broadcast %x on @square
      grid_axes = [0]
      root = [0]
      : (tensor<2xi8>) -> tensor<2xi8>
  // CHECK: shard.gather %arg1 on @square grid_axes = [1] gather_axis = 1 root = [1] : (tensor<2x2xi8>) -> tensor<2x4xi8>
  %1 = shard.gather %y on @square grid_axes = [1]
      gather_axis = 1 root = [1]
      : (tensor<2x2xi8>) -> tensor<2x4xi8>
  // CHECK: shard.reduce %arg2 on @wide grid_axes = [1, 0] reduction = max root = [2, 3] : (tensor<3x4xf32>) -> tensor<3x4xf64>
  %2 = shard.reduce %z on @wide grid_axes = [1, 0]
      reduction = <max> root = [2, 3]
      : (tensor<3x4xf32>) -> tensor<3x4xf64>
  // CHECK: shard.scatter %arg1 on @square grid_axes = [0] scatter_{{dim|axis}} = 0 root = [1] : (tensor<2x2xi8>) -> tensor<1x2xi8>
  %3 = shard.scatter %y on @square grid_axes = [0]
      scatter_axis = 0
      root = [1]
      : (tensor<2x2xi8>) -> tensor<1x2xi8>
  // CHECK: shard.shift %arg0 on @line grid_axes = [1] shift_axis = 1 offset = 2 rotate : tensor<2xi8> -> tensor<2xi8>
  %4 = shard.shift %x on @line grid_axes = [1]
      shift_axis = 1 offset = 2 rotate
      : tensor<2xi8> -> tensor<2xi8>
  return
}
