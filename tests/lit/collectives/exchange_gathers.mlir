// Attention along a split sequence: keys and values are exchanged for heads, not gathered.
//
// RUN: shard-opt %s --exchange-gathers | filecheck %s

shard.grid @g(shape = 4)

// CHECK-LABEL: func.func @attention
// CHECK-NOT: mesh.all_gather
// CHECK-DAG: mesh.all_to_all %arg0
// CHECK-DAG: mesh.all_to_all %arg1
// CHECK: stablehlo.dot_general {{.*}}-> tensor<8x128x128xf32, #mesh.shard<@g, {{\[}}[0], [], []]>>
// CHECK: mesh.all_to_all %arg2
// CHECK-NOT: mesh.all_gather
// CHECK: stablehlo.dot_general {{.*}}-> tensor<8x128x64xf32, #mesh.shard<@g, {{\[}}[0], [], []]>>
// CHECK: mesh.all_to_all
// CHECK-NEXT: return
func.func @attention(%q: tensor<8x128x64xf32, #mesh.shard<@g, [[], [0], []]>>, %k: tensor<8x128x64xf32, #mesh.shard<@g, [[], [0], []]>>, %v: tensor<8x128x64xf32, #mesh.shard<@g, [[], [0], []]>>) -> tensor<8x128x64xf32, #mesh.shard<@g, [[], [0], []]>> {
  %k1 = "mesh.all_gather"(%k) {mesh_axis = [[], [0], []]} : (tensor<8x128x64xf32, #mesh.shard<@g, [[], [0], []]>>) -> tensor<8x128x64xf32>
  %s = stablehlo.dot_general %q, %k1, batching_dims = [0] x [0], contracting_dims = [2] x [2] : (tensor<8x128x64xf32, #mesh.shard<@g, [[], [0], []]>>, tensor<8x128x64xf32>) -> tensor<8x128x128xf32, #mesh.shard<@g, [[], [0], []]>>
  %p = stablehlo.tanh %s : tensor<8x128x128xf32, #mesh.shard<@g, [[], [0], []]>>
  %v1 = "mesh.all_gather"(%v) {mesh_axis = [[], [0], []]} : (tensor<8x128x64xf32, #mesh.shard<@g, [[], [0], []]>>) -> tensor<8x128x64xf32>
  %o = stablehlo.dot_general %p, %v1, batching_dims = [0] x [0], contracting_dims = [2] x [1] : (tensor<8x128x128xf32, #mesh.shard<@g, [[], [0], []]>>, tensor<8x128x64xf32>) -> tensor<8x128x64xf32, #mesh.shard<@g, [[], [0], []]>>
  return %o : tensor<8x128x64xf32, #mesh.shard<@g, [[], [0], []]>>
}

// One query that all keys and values are read for: to exchange the scores would move more.
// CHECK-LABEL: func.func @stays
// CHECK-NEXT: mesh.all_gather %arg1
// CHECK-NEXT: stablehlo.dot_general
func.func @stays(%q: tensor<8x512x4xf32, #mesh.shard<@g, [[], [0], []]>>, %k: tensor<8x4x4xf32, #mesh.shard<@g, [[], [0], []]>>) -> tensor<8x512x4xf32, #mesh.shard<@g, [[], [0], []]>> {
  %k1 = "mesh.all_gather"(%k) {mesh_axis = [[], [0], []]} : (tensor<8x4x4xf32, #mesh.shard<@g, [[], [0], []]>>) -> tensor<8x4x4xf32>
  %s = stablehlo.dot_general %q, %k1, batching_dims = [0] x [0], contracting_dims = [2] x [2] : (tensor<8x512x4xf32, #mesh.shard<@g, [[], [0], []]>>, tensor<8x4x4xf32>) -> tensor<8x512x4xf32, #mesh.shard<@g, [[], [0], []]>>
  return %s : tensor<8x512x4xf32, #mesh.shard<@g, [[], [0], []]>>
}
