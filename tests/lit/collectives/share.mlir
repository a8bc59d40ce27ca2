// Equal reshards of one value are one; others stay.
//
// RUN: shard-opt %s --share-collectives | filecheck %s

shard.grid @g(shape = 2x2)

// CHECK-LABEL: func.func @equal
// CHECK-NEXT: %[[WHOLE:.*]] = mesh.all_gather %arg0
// CHECK-NEXT: arith.addf %[[WHOLE]], %[[WHOLE]]
func.func @equal(%x: tensor<4x4xf32, #mesh.shard<@g, [[0], []]>>) -> tensor<4x4xf32> {
  %0 = "mesh.all_gather"(%x) {mesh_axis = [[0], []]} : (tensor<4x4xf32, #mesh.shard<@g, [[0], []]>>) -> tensor<4x4xf32>
  %1 = "mesh.all_gather"(%x) {mesh_axis = [[0], []]} : (tensor<4x4xf32, #mesh.shard<@g, [[0], []]>>) -> tensor<4x4xf32>
  %2 = arith.addf %0, %1 : tensor<4x4xf32>
  return %2 : tensor<4x4xf32>
}

// CHECK-LABEL: func.func @unequal
// CHECK-NEXT: mesh.local_split %arg0 {sharding{{.*}}[0]
// CHECK-NEXT: mesh.local_split %arg0 {sharding{{.*}}[1]
func.func @unequal(%x: tensor<4x4xf32>) -> (tensor<4x4xf32, #mesh.shard<@g, [[0], []]>>, tensor<4x4xf32, #mesh.shard<@g, [[1], []]>>) {
  %0 = "mesh.local_split"(%x) {sharding = [[0], []]} : (tensor<4x4xf32>) -> tensor<4x4xf32, #mesh.shard<@g, [[0], []]>>
  %1 = "mesh.local_split"(%x) {sharding = [[1], []]} : (tensor<4x4xf32>) -> tensor<4x4xf32, #mesh.shard<@g, [[1], []]>>
  return %0, %1 : tensor<4x4xf32, #mesh.shard<@g, [[0], []]>>, tensor<4x4xf32, #mesh.shard<@g, [[1], []]>>
}
