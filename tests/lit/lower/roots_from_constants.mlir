// Places of collectives that constants make are numbers, whichever collective names them.
//
// RUN: shard-opt %s --spmd | filecheck %s
// RUN: shard-opt %s --lower | filecheck %s --check-prefix=LOWERED

// CHECK: shard.broadcast %{{.*}} root = [1]
// CHECK: shard.reduce %{{.*}} root = [1]
// CHECK: shard.update_halo %{{.*}} halo_sizes = [1, 1]
// LOWERED: call @mesh_broadcast_0
// LOWERED: call @mesh_reduce_0
// LOWERED: call @mesh_update_halo_0
shard.grid @g(shape = 2x2)
func.func @main(%x: tensor<4x4xf32>) -> tensor<4x4xf32> attributes {mesh.form = "local"} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %one = arith.addi %c0, %c1 : index
  %size = arith.constant 1 : i64
  %0 = shard.broadcast %x on @g grid_axes = [0] root = [%one] : (tensor<4x4xf32>, index) -> tensor<4x4xf32>
  %1 = shard.reduce %0 on @g grid_axes = [1] root = [%c1] : (tensor<4x4xf32>, index) -> tensor<4x4xf32>
  %2 = shard.update_halo %1 on @g split_axes = [[0]] halo_sizes = [%size, 1] : tensor<4x4xf32>
  return %2 : tensor<4x4xf32>
}
