// Upstream's collectives are no annotations: they stay, and so do the grids that they look for.
//
// RUN: shard-opt %s --import | filecheck %s

// CHECK: shard.grid @used(shape = 2)
shard.grid @used(shape = 2)
// CHECK: mesh.cluster @not_used(rank = 1, dim_sizes = [4])
shard.grid @not_used(shape = 4)

func.func @main(%x: tensor<4xf32>) -> (tensor<4xf32>, index) {
  // CHECK: shard.sharding @used
  %s = shard.sharding @used split_axes = [[0]] : !shard.sharding
  // CHECK: mesh.annotate %arg0
  %0 = shard.shard %x to %s : tensor<4xf32>
  // CHECK: shard.all_reduce %{{.*}} on @used
  %1 = shard.all_reduce %0 on @used grid_axes = [0] : tensor<4xf32> -> tensor<4xf32>
  // CHECK: shard.shard_shape
  %n:1 = shard.shard_shape dims = [4] sharding = %s device = [0] : index
  return %1, %n : tensor<4xf32>, index
}
