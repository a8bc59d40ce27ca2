// A gather takes axes from each dimension, minor or major ones; sub-axes too, and sizes may be unknown.
//
// RUN: shard-opt %s --verify-roundtrip | filecheck %s
// RUN: shard-opt %s --mlir-print-op-generic | shard-opt | filecheck %s

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 4]} : () -> ()

// CHECK-LABEL: func.func @gathered
func.func @gathered(%x: tensor<8x8xf32, #mesh.shard<@g, [[0, 1], []]>>,
                    %y: tensor<8x8xf32, #mesh.shard<@g, [[0], [1]]>>,
                    %z: tensor<8x?xf32, #mesh.shard<@g, [["1:(1)2"], [0]]>>,
                    %p: tensor<8x8xf32, #mesh.shard<@g, [[0], [], {max = [1]}]>>) {
  // CHECK{LITERAL}: mesh.all_gather %arg0 {mesh_axis = [[1], []]} : tensor<8x8xf32, #mesh.shard<@g, [[0, 1], []]>> -> tensor<8x8xf32, #mesh.shard<@g, [[0], []]>>
  %0 = "mesh.all_gather"(%x) {mesh_axis = [[1], []]}
      : (tensor<8x8xf32, #mesh.shard<@g, [[0, 1], []]>>) -> tensor<8x8xf32, #mesh.shard<@g, [[0], []]>>
  // CHECK{LITERAL}: mesh.all_gather %arg1 {mesh_axis = [[0], [1]]} : tensor<8x8xf32, #mesh.shard<@g, [[0], [1]]>> -> tensor<8x8xf32>
  %1 = "mesh.all_gather"(%y) {mesh_axis = [[0], [1]]}
      : (tensor<8x8xf32, #mesh.shard<@g, [[0], [1]]>>) -> tensor<8x8xf32>
  // CHECK{LITERAL}: mesh.all_gather %arg2 {mesh_axis = [["1:(1)2"]]} : tensor<8x?xf32, #mesh.shard<@g, [["1:(1)2"], [0]]>> -> tensor<8x?xf32, #mesh.shard<@g, [[], [0]]>>
  %2 = "mesh.all_gather"(%z) {mesh_axis = [["1:(1)2"]]}
      : (tensor<8x?xf32, #mesh.shard<@g, [["1:(1)2"], [0]]>>) -> tensor<8x?xf32, #mesh.shard<@g, [[], [0]]>>
  // CHECK{LITERAL}: mesh.all_gather %arg3 {mesh_axis = [[0]]} : tensor<8x8xf32, #mesh.shard<@g, [[0], [], {max = [1]}]>> -> tensor<8x8xf32, #mesh.shard<@g, [[], [], {max = [1]}]>>
  %3 = "mesh.all_gather"(%p) {mesh_axis = [[0]]}
      : (tensor<8x8xf32, #mesh.shard<@g, [[0], [], {max = [1]}]>>) -> tensor<8x8xf32, #mesh.shard<@g, [[], [], {max = [1]}]>>
  // CHECK{LITERAL}: mesh.all_gather %arg0 {mesh_axis = [[0]]} : tensor<8x8xf32, #mesh.shard<@g, [[0, 1], []]>> -> tensor<8x8xf32, #mesh.shard<@g, [[1], []]>>
  %4 = "mesh.all_gather"(%x) {mesh_axis = [[0]]}
      : (tensor<8x8xf32, #mesh.shard<@g, [[0, 1], []]>>) -> tensor<8x8xf32, #mesh.shard<@g, [[1], []]>>
  // The gathered dimensions may be named once more.
  // CHECK{LITERAL}: mesh.all_gather %arg1 {mesh_axis = [[0], [1]], tensor_axis = [0, 1]} : tensor<8x8xf32, #mesh.shard<@g, [[0], [1]]>> -> tensor<8x8xf32>
  %5 = "mesh.all_gather"(%y) {mesh_axis = [[0], [1]], tensor_axis = [0, 1]}
      : (tensor<8x8xf32, #mesh.shard<@g, [[0], [1]]>>) -> tensor<8x8xf32>
  return
}
