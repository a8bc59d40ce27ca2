// Two collectives in a row become what their whole is.
//
// RUN: shard-opt %s --fold-collectives | filecheck %s

shard.grid @g(shape = 2x2)

// CHECK-LABEL: func.func @reduce_then_slice
// CHECK-NEXT: mesh.reduce_scatter %arg0 {mesh_axis = [0], reduction = "sum", tensor_axis = 1 : i64}
// CHECK-NEXT: return
func.func @reduce_then_slice(%x: tensor<4x4xf32, #mesh.shard<@g, [[], [], [0]]>>)
    -> tensor<4x4xf32, #mesh.shard<@g, [[], [0]]>> {
  %0 = "mesh.all_reduce"(%x) {mesh_axis = [0], reduction = "sum"}
      : (tensor<4x4xf32, #mesh.shard<@g, [[], [], [0]]>>) -> tensor<4x4xf32>
  %1 = "mesh.local_split"(%0) {sharding = [[], [0]]}
      : (tensor<4x4xf32>) -> tensor<4x4xf32, #mesh.shard<@g, [[], [0]]>>
  return %1 : tensor<4x4xf32, #mesh.shard<@g, [[], [0]]>>
}

// CHECK-LABEL: func.func @gather_then_slice
// CHECK-NEXT: return %arg0
func.func @gather_then_slice(%x: tensor<4x4xf32, #mesh.shard<@g, [[0]]>>)
    -> tensor<4x4xf32, #mesh.shard<@g, [[0]]>> {
  %0 = "mesh.all_gather"(%x) {mesh_axis = [[0], []]}
      : (tensor<4x4xf32, #mesh.shard<@g, [[0]]>>) -> tensor<4x4xf32>
  %1 = "mesh.local_split"(%0) {sharding = [[0], []]}
      : (tensor<4x4xf32>) -> tensor<4x4xf32, #mesh.shard<@g, [[0]]>>
  return %1 : tensor<4x4xf32, #mesh.shard<@g, [[0]]>>
}

// CHECK-LABEL: func.func @two_reductions
// CHECK-NEXT: mesh.all_reduce %arg0 {mesh_axis = [0, 1], reduction = "sum"}
// CHECK-NEXT: return
func.func @two_reductions(%x: tensor<4x4xf32, #mesh.shard<@g, [[], [], [0, 1]]>>)
    -> tensor<4x4xf32> {
  %0 = "mesh.all_reduce"(%x) {mesh_axis = [0], reduction = "sum"}
      : (tensor<4x4xf32, #mesh.shard<@g, [[], [], [0, 1]]>>)
      -> tensor<4x4xf32, #mesh.shard<@g, [[], [], [1]]>>
  %1 = "mesh.all_reduce"(%0) {mesh_axis = [1], reduction = "sum"}
      : (tensor<4x4xf32, #mesh.shard<@g, [[], [], [1]]>>) -> tensor<4x4xf32>
  return %1 : tensor<4x4xf32>
}

// A gather that others use too is left, and what follows it is not made dearer.
// CHECK-LABEL: func.func @gathered_for_others
// CHECK-NEXT: %[[WHOLE:.*]] = mesh.all_gather %arg0
// CHECK-NEXT: return %[[WHOLE]], %arg0
func.func @gathered_for_others(%x: tensor<4x4xf32, #mesh.shard<@g, [[0]]>>)
    -> (tensor<4x4xf32>, tensor<4x4xf32, #mesh.shard<@g, [[0]]>>) {
  %0 = "mesh.all_gather"(%x) {mesh_axis = [[0], []]}
      : (tensor<4x4xf32, #mesh.shard<@g, [[0]]>>) -> tensor<4x4xf32>
  %1 = "mesh.local_split"(%0) {sharding = [[0], []]}
      : (tensor<4x4xf32>) -> tensor<4x4xf32, #mesh.shard<@g, [[0]]>>
  return %0, %1 : tensor<4x4xf32>, tensor<4x4xf32, #mesh.shard<@g, [[0]]>>
}

// A permutation and its inverse, an exchange and its inverse.
// CHECK-LABEL: func.func @inverses
// CHECK-NEXT: return %arg0
func.func @inverses(%x: tensor<4x4xf32, #mesh.shard<@g, [[0], []]>>) -> tensor<4x4xf32, #mesh.shard<@g, [[0], []]>> {
  %0 = "mesh.collective_permute"(%x) {mesh_axis = [0, 1], permutation = [0, 2, 1, 3]} : (tensor<4x4xf32, #mesh.shard<@g, [[0], []]>>) -> tensor<4x4xf32, #mesh.shard<@g, [[1], []]>>
  %1 = "mesh.all_to_all"(%0) {mesh_axis = [1], split_axis = 1 : i64, concat_axis = 0 : i64} : (tensor<4x4xf32, #mesh.shard<@g, [[1], []]>>) -> tensor<4x4xf32, #mesh.shard<@g, [[], [1]]>>
  %2 = "mesh.all_to_all"(%1) {mesh_axis = [1], split_axis = 0 : i64, concat_axis = 1 : i64} : (tensor<4x4xf32, #mesh.shard<@g, [[], [1]]>>) -> tensor<4x4xf32, #mesh.shard<@g, [[1], []]>>
  %3 = "mesh.collective_permute"(%2) {mesh_axis = [0, 1], permutation = [0, 2, 1, 3]} : (tensor<4x4xf32, #mesh.shard<@g, [[1], []]>>) -> tensor<4x4xf32, #mesh.shard<@g, [[0], []]>>
  return %3 : tensor<4x4xf32, #mesh.shard<@g, [[0], []]>>
}

// A rotation of the shards makes another tensor: it is no reshard.
// CHECK-LABEL: func.func @rotated_twice
// CHECK-NEXT: mesh.collective_permute %arg0
// CHECK-NEXT: mesh.collective_permute
func.func @rotated_twice(%x: tensor<4x4xf32, #mesh.shard<@g, [[0], []]>>) -> tensor<4x4xf32, #mesh.shard<@g, [[0], []]>> {
  %0 = "mesh.collective_permute"(%x) {mesh_axis = [0], permutation = [1, 0]} : (tensor<4x4xf32, #mesh.shard<@g, [[0], []]>>) -> tensor<4x4xf32, #mesh.shard<@g, [[0], []]>>
  %1 = "mesh.collective_permute"(%0) {mesh_axis = [0], permutation = [1, 0]} : (tensor<4x4xf32, #mesh.shard<@g, [[0], []]>>) -> tensor<4x4xf32, #mesh.shard<@g, [[0], []]>>
  return %1 : tensor<4x4xf32, #mesh.shard<@g, [[0], []]>>
}
