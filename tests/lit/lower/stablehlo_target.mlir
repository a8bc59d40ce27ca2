// RUN: shard-opt %s --split-input-file --lower='target=stablehlo' | filecheck %s
// RUN: shard-opt %s --split-input-file --emit-stablehlo | filecheck %s
// RUN: shard-opt %s --split-input-file --lower='target=stablehlo devices=partitions' | filecheck %s --check-prefix=PARTITIONS

// All devices run one program, as replicas: nothing but func and stablehlo is left.
// CHECK: module attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 4 : i32}
// CHECK-NOT: shard.grid
// CHECK-LABEL: func.func @gather(
// CHECK-SAME: %[[X:.*]]: tensor<2x4xf32>) -> tensor<2x8xf32> {
// CHECK: %[[G:.*]] = "stablehlo.all_gather"(%[[X]])
// CHECK-SAME: all_gather_dim = 1
// CHECK-SAME{LITERAL}: replica_groups = dense<[[0, 2], [1, 3]]>
// CHECK: return %[[G]]
// PARTITIONS: module attributes {mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32}
// PARTITIONS: channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>
// PARTITIONS-SAME: use_global_device_ids
shard.grid @g(shape = 2x2)
func.func @gather(%x: tensor<2x4xf32> {mesh.argument = tensor<4x8xf32, #mesh.shard<@g, [[1], [0]]>>})
    -> tensor<2x8xf32> attributes {mesh.form = "local"} {
  %0 = shard.all_gather %x on @g grid_axes = [0] gather_axis = 1 : tensor<2x4xf32> -> tensor<2x8xf32>
  return %0 : tensor<2x8xf32>
}

// -----

// Where a device is decides which slice is its own.
// CHECK-LABEL: func.func @slice(
// CHECK: %[[STARTS:.*]] = stablehlo.constant dense<[0, 2]> : tensor<2xi64>
// CHECK: %[[ID:.*]] = stablehlo.replica_id : tensor<ui32>
// CHECK: %[[RANK:.*]] = stablehlo.convert %[[ID]] : (tensor<ui32>) -> tensor<i64>
// CHECK: stablehlo.dynamic_slice %[[STARTS]], %[[RANK]], sizes = [1]
// CHECK: stablehlo.dynamic_slice %{{.*}}, sizes = [2, 3]
// PARTITIONS-LABEL: func.func @slice(
// PARTITIONS: stablehlo.partition_id
shard.grid @g(shape = 2)
func.func @slice(%x: tensor<4x3xf32>) -> tensor<2x3xf32> attributes {mesh.form = "local"} {
  %0 = shard.all_slice %x on @g grid_axes = [0] slice_axis = 0 : tensor<4x3xf32> -> tensor<2x3xf32>
  return %0 : tensor<2x3xf32>
}

// -----

// A halo comes from the neighbours; the ends of the tensor keep what is there.
// CHECK-LABEL: func.func @halo(
// CHECK: stablehlo.slice %{{.*}} [4:5]
// CHECK: "stablehlo.collective_permute"
// CHECK-SAME{LITERAL}: source_target_pairs = dense<[[0, 1]]>
// CHECK: stablehlo.select
// CHECK: stablehlo.dynamic_update_slice
// CHECK: "stablehlo.collective_permute"
// CHECK-SAME{LITERAL}: source_target_pairs = dense<[[1, 0]]>
shard.grid @g(shape = 2)
func.func @halo(%x: tensor<6xf32>) -> tensor<6xf32> attributes {mesh.form = "local"} {
  %0 = shard.update_halo %x on @g split_axes = [[0]] halo_sizes = [1, 1] : tensor<6xf32>
  return %0 : tensor<6xf32>
}

// -----

// Linalg, arith and tensor become StableHLO on whole tensors.
// CHECK-LABEL: func.func @product(
// CHECK-SAME: %[[A:.*]]: tensor<4x8xf32>, %[[B:.*]]: tensor<8x6xf32>)
// CHECK: %[[P:.*]] = stablehlo.dot_general %[[A]], %[[B]], contracting_dims = [1] x [0], precision = [HIGHEST, HIGHEST]
// CHECK: %[[S:.*]] = stablehlo.add %{{.*}}, %[[P]]
// CHECK: stablehlo.reduce(%{{.*}}) applies stablehlo.maximum across dimensions = [1]
// CHECK-NOT: linalg
func.func @product(%a: tensor<4x8xf32>, %b: tensor<8x6xf32>) -> tensor<4xf32>
    attributes {mesh.form = "local"} {
  %c = arith.constant 0.0 : f32
  %low = arith.constant 0xFF800000 : f32
  %e = tensor.empty() : tensor<4x6xf32>
  %0 = linalg.fill ins(%c : f32) outs(%e : tensor<4x6xf32>) -> tensor<4x6xf32>
  %1 = linalg.matmul ins(%a, %b : tensor<4x8xf32>, tensor<8x6xf32>) outs(%0 : tensor<4x6xf32>) -> tensor<4x6xf32>
  %f = tensor.empty() : tensor<4xf32>
  %2 = linalg.fill ins(%low : f32) outs(%f : tensor<4xf32>) -> tensor<4xf32>
  %3 = linalg.reduce { arith.maximumf } ins(%1 : tensor<4x6xf32>) outs(%2 : tensor<4xf32>) dimensions = [1]
  return %3 : tensor<4xf32>
}

// -----

// A loop counts in a tensor of rank 0.
// CHECK-LABEL: func.func @loop(
// CHECK: stablehlo.while(%[[I:.*]] = %{{.*}}, %[[V:.*]] = %{{.*}}) : tensor<i64>, tensor<4xf32>
// CHECK: stablehlo.compare LT, %[[I]]
// CHECK: stablehlo.add %[[V]], %[[V]]
func.func @loop(%x: tensor<4xf32>) -> tensor<4xf32> attributes {mesh.form = "local"} {
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %ten = arith.constant 10 : index
  %0 = scf.for %i = %zero to %ten step %one iter_args(%v = %x) -> tensor<4xf32> {
    %1 = arith.addf %v, %v : tensor<4xf32>
    scf.yield %1 : tensor<4xf32>
  }
  return %0 : tensor<4xf32>
}
