// Every op and attribute of the mesh dialect prints as it parses.
//
// RUN: shard-opt %s | shard-opt | filecheck %s

// CHECK: "mesh.cluster"() {dim_sizes = [2, 4], rank = 2 : i64, sym_name = "g"} : () -> ()
"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 4]} : () -> ()
// CHECK: "mesh.cluster"() {rank = 1 : i64, sym_name = "unknown"} : () -> ()
"mesh.cluster"() {sym_name = "unknown", rank = 1 : i64} : () -> ()

// CHECK-LABEL: func.func @annotate
func.func @annotate(%x: tensor<4x8xf32>) -> tensor<4x8xf32> attributes {mesh_cluster = @g} {
  // CHECK{LITERAL}: "mesh.annotate"(%arg0) {sharding = [[], [0]]}
  %0 = "mesh.annotate"(%x) {sharding = [[], [0]]} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}

// CHECK-LABEL: func.func @collectives
func.func @collectives(%x: tensor<8x8xf32, #mesh.shard<@g, [[0], [1]]>>,
                       %p: tensor<8x8xf32, #mesh.shard<@g, [[], [], [0, 1]]>>) {
  // CHECK{LITERAL}: "mesh.all_gather"(%arg0) {mesh_axis = [[0], [1]], tensor_axis = [0, 1]} : (tensor<8x8xf32, #mesh.shard<@g, [[0], [1]]>>) -> tensor<8x8xf32>
  %0 = "mesh.all_gather"(%x) {mesh_axis = [[0], [1]], tensor_axis = [0, 1]}
      : (tensor<8x8xf32, #mesh.shard<@g, [[0], [1]]>>) -> tensor<8x8xf32>
  // CHECK{LITERAL}: "mesh.all_to_all"(%arg0) {concat_axis = 0 : i64, mesh_axis = [0], split_axis = 1 : i64} : (tensor<8x8xf32, #mesh.shard<@g, [[0], [1]]>>) -> tensor<8x8xf32, #mesh.shard<@g, [[], [1, 0]]>>
  %1 = "mesh.all_to_all"(%x) {mesh_axis = [0], split_axis = 1 : i64, concat_axis = 0 : i64}
      : (tensor<8x8xf32, #mesh.shard<@g, [[0], [1]]>>) -> tensor<8x8xf32, #mesh.shard<@g, [[], [1, 0]]>>
  // CHECK{LITERAL}: "mesh.all_reduce"(%arg1) {mesh_axis = [0], reduction = "sum"} : (tensor<8x8xf32, #mesh.shard<@g, [[], [], [0, 1]]>>) -> tensor<8x8xf32, #mesh.shard<@g, [[], [], [1]]>>
  %2 = "mesh.all_reduce"(%p) {mesh_axis = [0], reduction = "sum"}
      : (tensor<8x8xf32, #mesh.shard<@g, [[], [], [0, 1]]>>) -> tensor<8x8xf32, #mesh.shard<@g, [[], [], [1]]>>
  // CHECK{LITERAL}: "mesh.reduce_scatter"(%arg1) {mesh_axis = [0, 1], reduction = "sum", tensor_axis = 1 : i64} : (tensor<8x8xf32, #mesh.shard<@g, [[], [], [0, 1]]>>) -> tensor<8x8xf32, #mesh.shard<@g, [[], [0, 1]]>>
  %3 = "mesh.reduce_scatter"(%p) {mesh_axis = [0, 1], reduction = "sum", tensor_axis = 1 : i64}
      : (tensor<8x8xf32, #mesh.shard<@g, [[], [], [0, 1]]>>) -> tensor<8x8xf32, #mesh.shard<@g, [[], [0, 1]]>>
  // CHECK{LITERAL}: "mesh.local_split"(%0) {sharding = [[1], [0]]} : (tensor<8x8xf32>) -> tensor<8x8xf32, #mesh.shard<@g, [[1], [0]]>>
  %4 = "mesh.local_split"(%0) {sharding = [[1], [0]]}
      : (tensor<8x8xf32>) -> tensor<8x8xf32, #mesh.shard<@g, [[1], [0]]>>
  return
}

// CHECK-LABEL: func.func @kinds
// CHECK-SAME{LITERAL}: tensor<4xf32, #mesh.shard<@g, [[1], {max = [0]}]>>
func.func @kinds(%x: tensor<4xf32, #mesh.shard<@g, [[1], {max = [0]}]>>) {
  return
}
