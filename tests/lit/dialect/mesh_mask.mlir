// A replicated tensor becomes partial: the first device of a group keeps its shard.
//
// RUN: shard-opt %s --verify-roundtrip | filecheck %s
// RUN: shard-opt %s --mlir-print-op-generic | shard-opt | filecheck %s

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 4]} : () -> ()

// CHECK-LABEL: func.func @sum
func.func @sum(%x: tensor<8x8xf32, #mesh.shard<@g, [[0], []]>>) {
  // CHECK{LITERAL}: mesh.mask %arg0 {mesh_axis = [1], reduction = "sum"} : tensor<8x8xf32, #mesh.shard<@g, [[0], []]>> -> tensor<8x8xf32, #mesh.shard<@g, [[0], [], [1]]>>
  %0 = "mesh.mask"(%x) {mesh_axis = [1], reduction = "sum"}
      : (tensor<8x8xf32, #mesh.shard<@g, [[0], []]>>) -> tensor<8x8xf32, #mesh.shard<@g, [[0], [], [1]]>>
  return
}

// CHECK-LABEL: func.func @max_of_plain_shards
func.func @max_of_plain_shards(%x: tensor<2x8xf32>) -> tensor<2x8xf32> {
  // CHECK: mesh.mask %arg0 {cluster = @g, mesh_axis = [0], reduction = "max"} : tensor<2x8xf32> -> tensor<2x8xf32>
  %0 = "mesh.mask"(%x) {cluster = @g, mesh_axis = [0], reduction = "max"} : (tensor<2x8xf32>) -> tensor<2x8xf32>
  return %0 : tensor<2x8xf32>
}
