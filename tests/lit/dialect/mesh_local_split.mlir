// A local split lists the axes that it adds, at the minor ends of dimensions that may be split already.
//
// RUN: shard-opt %s --verify-roundtrip | filecheck %s
// RUN: shard-opt %s --mlir-print-op-generic | shard-opt | filecheck %s

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 4]} : () -> ()

// CHECK-LABEL: func.func @split
func.func @split(%x: tensor<8x8xf32>, %y: tensor<8x8xf32, #mesh.shard<@g, [["1:(1)2"], []]>>) {
  // CHECK{LITERAL}: mesh.local_split %arg0 {sharding = [[1], [0]]} : tensor<8x8xf32> -> tensor<8x8xf32, #mesh.shard<@g, [[1], [0]]>>
  %0 = "mesh.local_split"(%x) {sharding = [[1], [0]]}
      : (tensor<8x8xf32>) -> tensor<8x8xf32, #mesh.shard<@g, [[1], [0]]>>
  // CHECK{LITERAL}: mesh.local_split %arg1 {sharding = [[0]]} : tensor<8x8xf32, #mesh.shard<@g, [["1:(1)2"], []]>> -> tensor<8x8xf32, #mesh.shard<@g, [["1:(1)2", 0], []]>>
  %1 = "mesh.local_split"(%y) {sharding = [[0]]}
      : (tensor<8x8xf32, #mesh.shard<@g, [["1:(1)2"], []]>>) -> tensor<8x8xf32, #mesh.shard<@g, [["1:(1)2", 0], []]>>
  // The types alone say it, too.
  // CHECK{LITERAL}: mesh.local_split %arg0 : tensor<8x8xf32> -> tensor<8x8xf32, #mesh.shard<@g, [[0], [1]]>>
  %2 = "mesh.local_split"(%x) : (tensor<8x8xf32>) -> tensor<8x8xf32, #mesh.shard<@g, [[0], [1]]>>
  return
}
