// A reduction that is scattered gives its axes to the minor end of a dimension.
//
// RUN: shard-opt %s --verify-roundtrip | filecheck %s
// RUN: shard-opt %s --mlir-print-op-generic | shard-opt | filecheck %s

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 4]} : () -> ()

// CHECK-LABEL: func.func @scattered
func.func @scattered(%s: tensor<8x8xf32, #mesh.shard<@g, [[1], [], [0]]>>,
                     %m: tensor<8x8xf32, #mesh.shard<@g, [[], [], {max = [0, 1]}]>>) {
  // CHECK{LITERAL}: mesh.reduce_scatter %arg0 {mesh_axis = [0], reduction = "sum", tensor_axis = 0 : i64} : tensor<8x8xf32, #mesh.shard<@g, [[1], [], [0]]>> -> tensor<8x8xf32, #mesh.shard<@g, [[1, 0], []]>>
  %0 = "mesh.reduce_scatter"(%s) {mesh_axis = [0], reduction = "sum", tensor_axis = 0 : i64}
      : (tensor<8x8xf32, #mesh.shard<@g, [[1], [], [0]]>>) -> tensor<8x8xf32, #mesh.shard<@g, [[1, 0], []]>>
  // CHECK{LITERAL}: mesh.reduce_scatter %arg1 {mesh_axis = [1], reduction = "max", tensor_axis = 1 : i64} : tensor<8x8xf32, #mesh.shard<@g, [[], [], {max = [0, 1]}]>> -> tensor<8x8xf32, #mesh.shard<@g, [[], [1], {max = [0]}]>>
  %1 = "mesh.reduce_scatter"(%m) {mesh_axis = [1], reduction = "max", tensor_axis = 1 : i64}
      : (tensor<8x8xf32, #mesh.shard<@g, [[], [], {max = [0, 1]}]>>) -> tensor<8x8xf32, #mesh.shard<@g, [[], [1], {max = [0]}]>>
  // Also in front of other axes.
  // CHECK{LITERAL}: mesh.reduce_scatter %arg0 {mesh_axis = [0], reduction = "sum", tensor_axis = 0 : i64} : tensor<8x8xf32, #mesh.shard<@g, [[1], [], [0]]>> -> tensor<8x8xf32, #mesh.shard<@g, [[0, 1], []]>>
  %2 = "mesh.reduce_scatter"(%s) {mesh_axis = [0], reduction = "sum", tensor_axis = 0 : i64}
      : (tensor<8x8xf32, #mesh.shard<@g, [[1], [], [0]]>>) -> tensor<8x8xf32, #mesh.shard<@g, [[0, 1], []]>>
  return
}
