// A reshard says how its users see a tensor; what it is of lies as it did.
//
// RUN: shard-opt %s --verify-roundtrip | filecheck %s
// RUN: shard-opt %s --mlir-print-op-generic | shard-opt | filecheck %s

"mesh.cluster"() {sym_name = "g", rank = 1 : i64, dim_sizes = [2]} : () -> ()

// CHECK-LABEL: func.func @there_and_back
func.func @there_and_back(%x: tensor<4x8xf32>) -> tensor<4x8xf32> attributes {mesh_cluster = @g} {
  // CHECK{LITERAL}: %0 = mesh.annotate %arg0 {sharding = [[0]]}
  %0 = "mesh.annotate"(%x) {sharding = [[0]]} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  // CHECK{LITERAL}: %1 = mesh.reshard %0 {sharding = [[], [0]]} : tensor<4x8xf32> -> tensor<4x8xf32>
  %1 = "mesh.reshard"(%0) {sharding = [[], [0]]} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  // CHECK{LITERAL}: %2 = mesh.reshard %1 {sharding = #mesh.shard<[[0]]>} : tensor<4x8xf32> -> tensor<4x8xf32>
  %2 = "mesh.reshard"(%1) {sharding = #mesh.shard<@g, [[0]]>} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return %2 : tensor<4x8xf32>
}
