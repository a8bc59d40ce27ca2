// A hint is followed where facts leave room, and else overruled with a warning at its place.
//
// RUN: shard-opt %s --propagate 2>%t.err | filecheck %s
// RUN: shard-opt %s --propagate --verify-diagnostics

"mesh.cluster"() {sym_name = "g", rank = 1 : i64, dim_sizes = [2]} : () -> ()

// CHECK-LABEL: func.func @followed
// CHECK-SAME{LITERAL}: (%arg0: tensor<4x8xf32> {mesh.sharding = #mesh.shard<@g, [[], [0]]>}) -> (tensor<4x8xf32> {mesh.sharding = #mesh.shard<@g, [[], [0]]>})
func.func @followed(%x: tensor<4x8xf32>) -> tensor<4x8xf32> attributes {mesh_cluster = @g} {
  %0 = "mesh.annotate"(%x) {sharding = [[], [0]], required = false} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %1 = math.tanh %0 : tensor<4x8xf32>
  return %1 : tensor<4x8xf32>
}

// CHECK-LABEL: func.func @overruled
// CHECK-SAME{LITERAL}: (%arg0: tensor<4x8xf32> {mesh.sharding = #mesh.shard<@g, [[0], []]>}) -> (tensor<4x8xf32> {mesh.sharding = #mesh.shard<@g, [[0], []]>})
func.func @overruled(%x: tensor<4x8xf32>) -> tensor<4x8xf32> attributes {mesh_cluster = @g} {
  %0 = "mesh.annotate"(%x) {sharding = [[0]]} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %1 = math.tanh %0 : tensor<4x8xf32>
  // expected-warning@+1 {{the hint [[], [0]] is overruled: other annotations make the value [[0], []]}}
  %2 = "mesh.annotate"(%1) {sharding = [[], [0]], required = false} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return %2 : tensor<4x8xf32>
}
