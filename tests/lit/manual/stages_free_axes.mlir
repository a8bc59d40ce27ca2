// A stage of 2x4 devices: one axis is manual and the other free, a computation is in another one, and
// the second stage has it on its own devices.
//
// RUN: shard-opt %s --propagate --import | filecheck %s
// RUN: shard-run %s --check --reference=%S/Inputs/stages_free_axes_unsharded.mlir | filecheck %s --check-prefix=RESULT

// RESULT: check passed
mesh.cluster @all(rank = 2, dim_sizes = [4, 4])
mesh.sub_cluster @a(cluster = @all, offsets = [0, 0], sizes = [2, 4])
mesh.sub_cluster @b(cluster = @all, offsets = [2, 2], sizes = [2, 2])

// CHECK: func.func @main
// CHECK: mesh.to_local {{.*}}manual_axes = [1], {{.*}}#mesh.shard<@all_2x2x2x2, {{\[\[}}1], [
// CHECK: replica_groups = dense<{{\[\[}}0, 4], [1, 5], [2, 6], [3, 7], [8, 12], [9, 13], [10, 14], [11, 15]]>
// CHECK: mesh.to_local {{.*}}manual_axes = [2, 3]
func.func @main(%x: tensor<8x8xf32> {mesh.sharding = #mesh.shard<@a, [[], [1]]>}) -> tensor<8x8xf32> {
  %0 = scf.execute_region -> tensor<8x8xf32> no_inline {
    %l = mesh.to_local %x {manual_axes = [0], sharding = #mesh.shard<@a, [[0], [1]]>} : tensor<8x8xf32> -> tensor<4x8xf32>
    %t = stablehlo.tanh %l : tensor<4x8xf32>
    %s = "stablehlo.all_reduce"(%t) <{replica_groups = dense<[[0, 4], [1, 5], [2, 6], [3, 7]]> : tensor<4x2xi64>}> ({
    ^bb0(%p: tensor<f32>, %q: tensor<f32>):
      %m = stablehlo.maximum %p, %q : tensor<f32>
      stablehlo.return %m : tensor<f32>
    }) : (tensor<4x8xf32>) -> tensor<4x8xf32>
    %i = scf.execute_region -> tensor<4x8xf32> no_inline {
      %k = mesh.to_local %s {manual_axes = [1], sharding = #mesh.shard<@a, [[1], []]>} : tensor<4x8xf32> -> tensor<1x8xf32>
      %n = func.call @negated(%k) : (tensor<1x8xf32>) -> tensor<1x8xf32>
      %r = "stablehlo.collective_permute"(%n) <{source_target_pairs = dense<[[0, 1], [1, 0], [4, 5], [5, 4]]> : tensor<4x2xi64>}> : (tensor<1x8xf32>) -> tensor<1x8xf32>
      %h = mesh.to_global %r {manual_axes = [1], sharding = #mesh.shard<@a, [[1], []]>} : tensor<1x8xf32> -> tensor<4x8xf32>
      scf.yield %h : tensor<4x8xf32>
    } {mesh.manual_axes = [1]}
    %c = stablehlo.cosine %i : tensor<4x8xf32>
    %g = mesh.to_global %c {manual_axes = [0], sharding = #mesh.shard<@a, [[0], []]>} : tensor<4x8xf32> -> tensor<8x8xf32>
    scf.yield %g : tensor<8x8xf32>
  } {mesh.manual_axes = [0]}
  %1 = mesh.collective_permute %0 {cluster = @b} : tensor<8x8xf32> -> tensor<8x8xf32>
  %2 = scf.execute_region -> tensor<8x8xf32> no_inline {
    %l = mesh.to_local %1 {manual_axes = [0, 1], sharding = #mesh.shard<@b, [[0], [1]]>} : tensor<8x8xf32> -> tensor<4x4xf32>
    %n = "stablehlo.all_gather"(%l) <{all_gather_dim = 0 : i64, replica_groups = dense<[[0, 2], [1, 3]]> : tensor<2x2xi64>}> : (tensor<4x4xf32>) -> tensor<8x4xf32>
    %g = mesh.to_global %n {manual_axes = [0, 1], sharding = #mesh.shard<@b, [[], [1]]>} : tensor<8x4xf32> -> tensor<8x8xf32>
    scf.yield %g : tensor<8x8xf32>
  } {mesh.manual_axes = [0, 1]}
  return %2 : tensor<8x8xf32>
}

func.func private @negated(%x: tensor<1x8xf32>) -> tensor<1x8xf32> {
  %0 = stablehlo.negate %x : tensor<1x8xf32>
  return %0 : tensor<1x8xf32>
}
