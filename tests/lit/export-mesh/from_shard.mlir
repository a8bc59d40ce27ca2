// Upstream's annotations in the RFC's words.
//
// RUN: shard-opt %s --export-mesh | filecheck %s
// RUN: shard-opt %s --export-mesh --export-shard --export-mesh | filecheck %s

// CHECK-NOT: shard.
// CHECK: mesh.cluster @g(rank = 2, dim_sizes = [2, -1])
shard.grid @g(shape = 2x?)

// CHECK-LABEL: func.func @main
func.func @main(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %s = shard.sharding @g split_axes = [[0]] : !shard.sharding
  %t = shard.sharding @g split_axes = [[], [1]] : !shard.sharding
  // CHECK-NEXT{LITERAL}: %0 = mesh.annotate %arg0 {as_result = true, required = true, sharding = #mesh.shard<@g, [[0], []]>}
  %0 = shard.shard %x to %s : tensor<4x8xf32>
  // CHECK-NEXT{LITERAL}: %1 = mesh.annotate %0 {as_result = false, required = true, sharding = #mesh.shard<@g, [[], [1]]>}
  %1 = shard.shard %0 to %t annotate_for_users : tensor<4x8xf32>
  // CHECK-NEXT: return %1
  return %1 : tensor<4x8xf32>
}
