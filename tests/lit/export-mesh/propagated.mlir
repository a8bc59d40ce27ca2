// The propagated form has the RFC's words already.
//
// RUN: shard-opt %s --propagate > %t.before
// RUN: shard-opt %s --propagate --export-mesh | diff - %t.before
// RUN: shard-opt %s --propagate --export-mesh | filecheck %s

"mesh.cluster"() {sym_name = "g", rank = 1 : i64, dim_sizes = [2]} : () -> ()

// CHECK{LITERAL}: func.func @main(%arg0: tensor<4x8xf32> {mesh.sharding = #mesh.shard<@g, [[0], []]>}) -> (tensor<4x8xf32> {mesh.sharding = #mesh.shard<@g, [[0], []]>}) attributes {propagated
func.func @main(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %0 = "mesh.annotate"(%x) {sharding = #mesh.shard<@g, [[0]]>} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  // CHECK{LITERAL}: math.tanh %0 {mesh.shardings = [#mesh.shard<@g, [[0], []]>]}
  %1 = math.tanh %0 : tensor<4x8xf32>
  return %1 : tensor<4x8xf32>
}
