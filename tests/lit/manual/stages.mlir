// Manual computations of two stages, which are halves of a line of eight devices, and of all devices.
// What devices of a stage say of each other is by their numbers in it.
//
// RUN: shard-run %s --check --reference=%S/Inputs/stages_unsharded.mlir | filecheck %s

// CHECK: check passed
mesh.cluster @all(rank = 1, dim_sizes = [8])
mesh.sub_cluster @a(cluster = @all, offsets = [0], sizes = [4])
mesh.sub_cluster @b(cluster = @all, offsets = [4], sizes = [4])
func.func @main(%x: tensor<8x8xf32> {mesh.sharding = #mesh.shard<@a, [[], [0]]>}, %w: tensor<8x8xf32> {mesh.sharding = #mesh.shard<@b, [[0]]>}) -> (tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>) {
  %0 = stablehlo.tanh %x : tensor<8x8xf32>
  %1 = scf.execute_region -> tensor<8x8xf32> no_inline {
    %l = mesh.to_local %0 {manual_axes = [0], sharding = #mesh.shard<@a, [[0], []]>} : tensor<8x8xf32> -> tensor<2x8xf32>
    %s = "stablehlo.all_reduce"(%l) <{replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>}> ({
    ^bb0(%p: tensor<f32>, %q: tensor<f32>):
      %t = stablehlo.add %p, %q : tensor<f32>
      stablehlo.return %t : tensor<f32>
    }) : (tensor<2x8xf32>) -> tensor<2x8xf32>
    %n = "stablehlo.collective_permute"(%l) <{source_target_pairs = dense<[[0, 1], [1, 2], [2, 3]]> : tensor<3x2xi64>}> : (tensor<2x8xf32>) -> tensor<2x8xf32>
    %u = stablehlo.partition_id : tensor<ui32>
    %uf = stablehlo.convert %u : (tensor<ui32>) -> tensor<f32>
    %ub = stablehlo.broadcast_in_dim %uf, dims = [] : (tensor<f32>) -> tensor<2x8xf32>
    %i = mesh.idx {cluster = @a, axis = 0} : index
    %ii = arith.index_cast %i : index to i32
    %if = arith.sitofp %ii : i32 to f32
    %ib = tensor.splat %if : tensor<2x8xf32>
    %v = stablehlo.add %s, %n : tensor<2x8xf32>
    %v2 = stablehlo.add %v, %ub : tensor<2x8xf32>
    %v3 = stablehlo.add %v2, %ib : tensor<2x8xf32>
    %g = mesh.to_global %v3 {manual_axes = [0], sharding = #mesh.shard<@a, [[0], []]>} : tensor<2x8xf32> -> tensor<8x8xf32>
    scf.yield %g : tensor<8x8xf32>
  } {mesh.manual_axes = [0]}
  %3 = scf.execute_region -> tensor<8x8xf32> no_inline {
    %l = mesh.to_local %1 {manual_axes = [0], sharding = #mesh.shard<@b, [[0], []]>} : tensor<8x8xf32> -> tensor<2x8xf32>
    %m = mesh.to_local %w {manual_axes = [0], sharding = #mesh.shard<@b, [[0], []]>} : tensor<8x8xf32> -> tensor<2x8xf32>
    %n = "stablehlo.all_gather"(%m) <{all_gather_dim = 0 : i64, replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>}> : (tensor<2x8xf32>) -> tensor<8x8xf32>
    %d = stablehlo.dot_general %l, %n, contracting_dims = [1] x [0] : (tensor<2x8xf32>, tensor<8x8xf32>) -> tensor<2x8xf32>
    %g = mesh.to_global %d {manual_axes = [0], sharding = #mesh.shard<@b, [[0], []]>} : tensor<2x8xf32> -> tensor<8x8xf32>
    scf.yield %g : tensor<8x8xf32>
  } {mesh.manual_axes = [0]}
  %4 = scf.execute_region -> tensor<8x8xf32> no_inline {
    %l = mesh.to_local %3 {manual_axes = [0], sharding = #mesh.shard<@all, [[0], []]>} : tensor<8x8xf32> -> tensor<1x8xf32>
    %n = "stablehlo.collective_permute"(%l) <{source_target_pairs = dense<[[0, 1], [1, 2], [2, 3], [3, 4], [4, 5], [5, 6], [6, 7], [7, 0]]> : tensor<8x2xi64>}> : (tensor<1x8xf32>) -> tensor<1x8xf32>
    %g = mesh.to_global %n {manual_axes = [0], sharding = #mesh.shard<@all, [[0], []]>} : tensor<1x8xf32> -> tensor<8x8xf32>
    scf.yield %g : tensor<8x8xf32>
  } {mesh.manual_axes = [0]}
  return %1, %3, %4 : tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>
}
