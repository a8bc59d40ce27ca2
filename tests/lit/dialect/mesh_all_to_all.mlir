// An exchange moves axes from the minor end of one dimension to that of another.
//
// RUN: shard-opt %s --verify-roundtrip | filecheck %s
// RUN: shard-opt %s --mlir-print-op-generic | shard-opt | filecheck %s

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 4]} : () -> ()

// CHECK-LABEL: func.func @exchanged
func.func @exchanged(%x: tensor<8x8xf32, #mesh.shard<@g, [[0], [1]]>>,
                     %y: tensor<8x8xf32, #mesh.shard<@g, [[1, 0], []]>>) {
  // CHECK{LITERAL}: mesh.all_to_all %arg0 {concat_axis = 1 : i64, mesh_axis = [1], split_axis = 0 : i64} : tensor<8x8xf32, #mesh.shard<@g, [[0], [1]]>> -> tensor<8x8xf32, #mesh.shard<@g, [[0, 1], []]>>
  %0 = "mesh.all_to_all"(%x) {mesh_axis = [1], split_axis = 0 : i64, concat_axis = 1 : i64}
      : (tensor<8x8xf32, #mesh.shard<@g, [[0], [1]]>>) -> tensor<8x8xf32, #mesh.shard<@g, [[0, 1], []]>>
  // CHECK{LITERAL}: mesh.all_to_all %arg1 {concat_axis = 0 : i64, mesh_axis = [1, 0], split_axis = 1 : i64} : tensor<8x8xf32, #mesh.shard<@g, [[1, 0], []]>> -> tensor<8x8xf32, #mesh.shard<@g, [[], [1, 0]]>>
  %1 = "mesh.all_to_all"(%y) {mesh_axis = [1, 0], split_axis = 1 : i64, concat_axis = 0 : i64}
      : (tensor<8x8xf32, #mesh.shard<@g, [[1, 0], []]>>) -> tensor<8x8xf32, #mesh.shard<@g, [[], [1, 0]]>>
  return
}
