// A collective begins, and is waited for.
//
// RUN: shard-opt %s --verify-roundtrip | filecheck %s

shard.grid @g(shape = 2)

// CHECK-LABEL: func.func @reduced
// CHECK: %[[SUM:.*]] = "mesh.start"(%arg0) {collective = {grid = @g, grid_axes = array<i16: 0>, name = "shard.all_reduce"}} : (tensor<4xf32>) -> tensor<4xf32>
// CHECK: "mesh.done"(%[[SUM]]) : (tensor<4xf32>) -> tensor<4xf32>
func.func @reduced(%x: tensor<4xf32>) -> tensor<4xf32> attributes {mesh.form = "local"} {
  %0 = "mesh.start"(%x) {collective = {grid = @g, grid_axes = array<i16: 0>, name = "shard.all_reduce"}} : (tensor<4xf32>) -> tensor<4xf32>
  %1 = "mesh.done"(%0) : (tensor<4xf32>) -> tensor<4xf32>
  return %1 : tensor<4xf32>
}
