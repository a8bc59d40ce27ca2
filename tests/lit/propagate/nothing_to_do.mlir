// A function that is in a later form already stays as it is; one without annotations is whole.
//
// RUN: shard-opt %s --propagate | filecheck %s

shard.grid @g(shape = 2)

// CHECK-LABEL: func.func @distributed
// CHECK-NOT: mesh.sharding
// CHECK-LABEL: func.func @plain
// CHECK-SAME{LITERAL}: mesh.sharding = #mesh.shard<@g, [[]]>
func.func @distributed(%x: tensor<4xf32, #mesh.shard<@g, [[0]]>>) -> tensor<4xf32> {
  %0 = "mesh.all_gather"(%x) {mesh_axis = [[0]]}
      : (tensor<4xf32, #mesh.shard<@g, [[0]]>>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
func.func @plain(%x: tensor<4xf32>) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}
