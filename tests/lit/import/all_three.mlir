// Annotations of all three vocabularies stand side by side, in any order.
//
// RUN: shard-opt %s --import | filecheck %s
// RUN: shard-run %s --check | filecheck %s --check-prefix=NUMBERS

// CHECK-LABEL: func.func @main
func.func @main(%x: tensor<4x8xf32>) -> tensor<4x8xf32> attributes {mesh_cluster = @g} {
  // CHECK-NEXT{LITERAL}: %0 = mesh.annotate %arg0 {as_result = false, required = true, sharding = #mesh.shard<[[0], []]>}
  %0 = "sdy.sharding_constraint"(%x) <{sharding = #sdy.sharding<@g, [{"axis_0"}, {}]>}> : (tensor<4x8xf32>) -> tensor<4x8xf32>
  // CHECK-NEXT{LITERAL}: %1 = mesh.annotate %0 {as_result = false, required = true, sharding = #mesh.shard<[[], [0]]>}
  %1 = "mesh.annotate"(%0) {sharding = [[], [0]], as_result = false} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  // CHECK-NEXT: %2 = math.tanh %1
  %2 = math.tanh %1 : tensor<4x8xf32>
  // CHECK-NEXT{LITERAL}: %3 = mesh.annotate %2 {as_result = true, required = true, sharding = #mesh.shard<[[0], []]>}
  %s = shard.sharding @g split_axes = [[0]] : !shard.sharding
  %3 = shard.shard %2 to %s : tensor<4x8xf32>
  // CHECK-NEXT: return %3
  return %3 : tensor<4x8xf32>
}
// CHECK: mesh.cluster
shard.grid @g(shape = 2)
// NUMBERS: check passed
