// A reduction ends a partial tensor, along some of its axes or all, by the kind that it is partial by.
//
// RUN: shard-opt %s --verify-roundtrip | filecheck %s
// RUN: shard-opt %s --mlir-print-op-generic | shard-opt | filecheck %s

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 4]} : () -> ()

// CHECK-LABEL: func.func @reduced
func.func @reduced(%s: tensor<8xf32, #mesh.shard<@g, [[], [0, 1]]>>,
                   %m: tensor<8xf32, #mesh.shard<@g, [[0], {max = [1]}]>>,
                   %n: tensor<8xf32, #mesh.shard<@g, [[], {min = ["1:(2)2"]}]>>,
                   %p: tensor<8xf32, #mesh.shard<@g, [[], {product = [0]}]>>) {
  // CHECK{LITERAL}: mesh.all_reduce %arg0 {mesh_axis = [1], reduction = "sum"} : tensor<8xf32, #mesh.shard<@g, [[], [0, 1]]>> -> tensor<8xf32, #mesh.shard<@g, [[], [0]]>>
  %0 = "mesh.all_reduce"(%s) {mesh_axis = [1], reduction = "sum"}
      : (tensor<8xf32, #mesh.shard<@g, [[], [0, 1]]>>) -> tensor<8xf32, #mesh.shard<@g, [[], [0]]>>
  // CHECK{LITERAL}: mesh.all_reduce %arg1 {mesh_axis = [1], reduction = "max"} : tensor<8xf32, #mesh.shard<@g, [[0], {max = [1]}]>> -> tensor<8xf32, #mesh.shard<@g, [[0]]>>
  %1 = "mesh.all_reduce"(%m) {mesh_axis = [1], reduction = "max"}
      : (tensor<8xf32, #mesh.shard<@g, [[0], {max = [1]}]>>) -> tensor<8xf32, #mesh.shard<@g, [[0]]>>
  // CHECK{LITERAL}: mesh.all_reduce %arg2 {mesh_axis = ["1:(2)2"], reduction = "min"} : tensor<8xf32, #mesh.shard<@g, [[], {min = ["1:(2)2"]}]>> -> tensor<8xf32>
  %2 = "mesh.all_reduce"(%n) {mesh_axis = ["1:(2)2"], reduction = "min"}
      : (tensor<8xf32, #mesh.shard<@g, [[], {min = ["1:(2)2"]}]>>) -> tensor<8xf32>
  // CHECK{LITERAL}: mesh.all_reduce %arg3 {mesh_axis = [0], reduction = "product"} : tensor<8xf32, #mesh.shard<@g, [[], {product = [0]}]>> -> tensor<8xf32>
  %3 = "mesh.all_reduce"(%p) {mesh_axis = [0], reduction = "product"}
      : (tensor<8xf32, #mesh.shard<@g, [[], {product = [0]}]>>) -> tensor<8xf32>
  return
}
