// Steps with a root, and shifts, are calls as the others are; the root stands in the description.
//
// RUN: shard-opt %s --lower | filecheck %s

shard.grid @g(shape = 2x2)

// CHECK-DAG: mesh.collective = {grid = @g, grid_axes = array<i16: 0, 1>, name = "shard.broadcast", root = array<i64: 0, 1>}
// CHECK-DAG: mesh.collective = {gather_axis = 0 : index, grid = @g, grid_axes = array<i16: 0>, name = "shard.gather", root = array<i64: 1>}
// CHECK-DAG: mesh.collective = {{{.*}}name = "shard.scatter", root = array<i64: 1>{{.*}}}
// CHECK-DAG: mesh.collective = {{{.*}}name = "shard.reduce", reduction = #shard<partial max>, root = array<i64: 1>}
// CHECK-DAG: mesh.collective = {{{.*}}name = "shard.shift", offset = -1 : i64, shift_axis = 1 : index}
// CHECK: func.func @main
// CHECK: call @mesh_broadcast_0
func.func @main(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<8xf32>, tensor<2xf32>, tensor<4xf32>, tensor<4xf32>)
    attributes {mesh.form = "local"} {
  %0 = shard.broadcast %x on @g grid_axes = [0, 1] root = [0, 1] : (tensor<4xf32>) -> tensor<4xf32>
  %1 = shard.gather %x on @g grid_axes = [0] gather_axis = 0 root = [1] : (tensor<4xf32>) -> tensor<8xf32>
  %2 = shard.scatter %x on @g grid_axes = [0] scatter_dim = 0 root = [1] : (tensor<4xf32>) -> tensor<2xf32>
  %3 = shard.reduce %x on @g grid_axes = [0] reduction = max root = [1] : (tensor<4xf32>) -> tensor<4xf32>
  %4 = shard.shift %x on @g grid_axes = [0, 1] shift_axis = 1 offset = -1 : tensor<4xf32> -> tensor<4xf32>
  return %0, %1, %2, %3, %4 : tensor<4xf32>, tensor<8xf32>, tensor<2xf32>, tensor<4xf32>, tensor<4xf32>
}
