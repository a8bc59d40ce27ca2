// In a function with stages, a manual computation is on one stage, along axes that all its devices have.
//
// RUN: shard-opt %s --propagate --split-input-file --verify-diagnostics

mesh.cluster @all(rank = 1, dim_sizes = [6])
mesh.sub_cluster @a(cluster = @all, offsets = [0], sizes = [4])
func.func @of_no_multiple(%x: tensor<8x8xf32> {mesh.sharding = #mesh.shard<@a, [[]]>}) {
  // expected-error @+1 {{this manual computation is along axes [0] of stage @a(4), which has devices 0 to 3 of 6 along axis 0, no multiple of 4}}
  scf.execute_region no_inline {
    %l = mesh.to_local %x {manual_axes = [0], sharding = #mesh.shard<@a, [[0], []]>} : tensor<8x8xf32> -> tensor<2x8xf32>
    scf.yield
  } {mesh.manual_axes = [0]}
  return
}

// -----

shard.grid @all(shape = 4)
mesh.sub_cluster @a(cluster = @all, offsets = [0], sizes = [2])
func.func @of_upstream(%x: tensor<8x8xf32> {mesh.sharding = #mesh.shard<@a, [[]]>}) {
  scf.execute_region no_inline {
    %l = mesh.to_local %x {manual_axes = [0], sharding = #mesh.shard<@a, [[0], []]>} : tensor<8x8xf32> -> tensor<4x8xf32>
    // expected-error @+1 {{'shard.all_reduce' op is in a manual computation on a part of a grid: use StableHLO's collectives, or mesh.idx}}
    %s = shard.all_reduce %l on @all grid_axes = [0] : tensor<4x8xf32> -> tensor<4x8xf32>
    scf.yield
  } {mesh.manual_axes = [0]}
  return
}

// -----

mesh.cluster @all(rank = 1, dim_sizes = [4])
mesh.sub_cluster @a(cluster = @all, offsets = [0], sizes = [2])
func.func @groups_of_all(%x: tensor<8x8xf32> {mesh.sharding = #mesh.shard<@a, [[]]>}) {
  scf.execute_region no_inline {
    %l = mesh.to_local %x {manual_axes = [0], sharding = #mesh.shard<@a, [[0], []]>} : tensor<8x8xf32> -> tensor<4x8xf32>
    // expected-error @+1 {{expected all groups of devices along some axes of grid @a(2)}}
    %s = "stablehlo.all_gather"(%l) <{all_gather_dim = 0 : i64, replica_groups = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>}> : (tensor<4x8xf32>) -> tensor<8x8xf32>
    scf.yield
  } {mesh.manual_axes = [0]}
  return
}

// -----

mesh.cluster @all(rank = 2, dim_sizes = [2, 4])
mesh.sub_cluster @a(cluster = @all, offsets = [0, 0], sizes = [2, 2])
func.func @index_along_a_free_axis(%x: tensor<8x8xf32> {mesh.sharding = #mesh.shard<@a, [[]]>}) {
  scf.execute_region no_inline {
    %l = mesh.to_local %x {manual_axes = [0], sharding = #mesh.shard<@a, [[0], []]>} : tensor<8x8xf32> -> tensor<4x8xf32>
    // expected-error @+1 {{'stablehlo.partition_id' op tells devices apart along axes [1] of grid @a(2x2), which are not manual here}}
    %i = stablehlo.partition_id : tensor<ui32>
    scf.yield
  } {mesh.manual_axes = [0]}
  return
}
