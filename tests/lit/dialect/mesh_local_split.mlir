// A local split adds axes at the minor end of dimensions, of a whole tensor or a split one.
//
// RUN: shard-opt %s --verify-roundtrip | filecheck %s
// RUN: shard-opt %s --mlir-print-op-generic | shard-opt | filecheck %s

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 4]} : () -> ()

// CHECK-LABEL: func.func @split
func.func @split(%x: tensor<8x8xf32>, %y: tensor<8x8xf32, #mesh.shard<@g, [["1:(1)2"], []]>>) {
  // CHECK{LITERAL}: "mesh.local_split"(%arg0) {sharding = [[1], [0]]} : (tensor<8x8xf32>) -> tensor<8x8xf32, #mesh.shard<@g, [[1], [0]]>>
  %0 = "mesh.local_split"(%x) {sharding = [[1], [0]]}
      : (tensor<8x8xf32>) -> tensor<8x8xf32, #mesh.shard<@g, [[1], [0]]>>
  // CHECK{LITERAL}: "mesh.local_split"(%arg1) {sharding = [["1:(1)2", 0]]} : (tensor<8x8xf32, #mesh.shard<@g, [["1:(1)2"], []]>>) -> tensor<8x8xf32, #mesh.shard<@g, [["1:(1)2", 0], []]>>
  %1 = "mesh.local_split"(%y) {sharding = [["1:(1)2", 0]]}
      : (tensor<8x8xf32, #mesh.shard<@g, [["1:(1)2"], []]>>) -> tensor<8x8xf32, #mesh.shard<@g, [["1:(1)2", 0], []]>>
  return
}
