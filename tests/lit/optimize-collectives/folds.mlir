// Two collectives in a row become what their whole is.
//
// RUN: shard-opt %s --optimize-collectives | filecheck %s

shard.grid @g(shape = 2x2)

// CHECK-LABEL: func.func @reduce_then_slice
// CHECK-NEXT: "mesh.reduce_scatter"(%arg0) {mesh_axis = [0], reduction = "sum", tensor_axis = 1 : i64}
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
  %0 = "mesh.all_gather"(%x) {mesh_axis = [[0], []], tensor_axis = [0]}
      : (tensor<4x4xf32, #mesh.shard<@g, [[0]]>>) -> tensor<4x4xf32>
  %1 = "mesh.local_split"(%0) {sharding = [[0], []]}
      : (tensor<4x4xf32>) -> tensor<4x4xf32, #mesh.shard<@g, [[0]]>>
  return %1 : tensor<4x4xf32, #mesh.shard<@g, [[0]]>>
}

// CHECK-LABEL: func.func @two_reductions
// CHECK-NEXT: "mesh.all_reduce"(%arg0) {mesh_axis = [0, 1], reduction = "sum"}
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
// CHECK-NEXT: %[[WHOLE:.*]] = "mesh.all_gather"(%arg0)
// CHECK-NEXT: return %[[WHOLE]], %arg0
func.func @gathered_for_others(%x: tensor<4x4xf32, #mesh.shard<@g, [[0]]>>)
    -> (tensor<4x4xf32>, tensor<4x4xf32, #mesh.shard<@g, [[0]]>>) {
  %0 = "mesh.all_gather"(%x) {mesh_axis = [[0], []], tensor_axis = [0]}
      : (tensor<4x4xf32, #mesh.shard<@g, [[0]]>>) -> tensor<4x4xf32>
  %1 = "mesh.local_split"(%0) {sharding = [[0], []]}
      : (tensor<4x4xf32>) -> tensor<4x4xf32, #mesh.shard<@g, [[0]]>>
  return %0, %1 : tensor<4x4xf32>, tensor<4x4xf32, #mesh.shard<@g, [[0]]>>
}
