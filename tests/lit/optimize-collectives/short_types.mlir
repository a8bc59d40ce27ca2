// Types that leave out the lists of their last dimensions are those that have them.
//
// RUN: shard-opt %s --optimize-collectives | filecheck %s
// RUN: shard-opt %s --optimize-collectives --partition | filecheck %s --check-prefix=LOCAL

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 2]} : () -> ()

// The gather moves past the op.
//
// CHECK-LABEL: func.func @gathered(%arg0: tensor<4x8xf32, #mesh.shard<@g, {{\[}}[0, 1], []]>>
// CHECK: %0 = math.exp %arg0 : tensor<4x8xf32, #mesh.shard<@g, {{\[}}[0, 1], []]>>
// CHECK: %2 = arith.addf %0
// CHECK-NEXT: mesh.all_gather %2
// LOCAL: func.func @gathered(%arg0: tensor<1x8xf32> {{.*}}) -> (tensor<2x8xf32>
func.func @gathered(%x: tensor<4x8xf32, #mesh.shard<@g, [[0, 1]]>>) -> tensor<4x8xf32, #mesh.shard<@g, [[0]]>> {
  %c = arith.constant dense<1.0> : tensor<4x8xf32, #mesh.shard<@g, [[0]]>>
  %1 = "mesh.all_gather"(%x) {mesh_axis = [[1]]} : (tensor<4x8xf32, #mesh.shard<@g, [[0, 1]]>>) -> tensor<4x8xf32, #mesh.shard<@g, [[0]]>>
  %2 = math.exp %1 : tensor<4x8xf32, #mesh.shard<@g, [[0]]>>
  %3 = arith.addf %2, %c : tensor<4x8xf32, #mesh.shard<@g, [[0]]>>
  return %3 : tensor<4x8xf32, #mesh.shard<@g, [[0]]>>
}
