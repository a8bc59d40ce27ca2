// The RFC's attribute on an op splits its loops as it says; operands and result follow.
//
// RUN: shard-opt %s --propagate | filecheck %s
// RUN: shard-run %s --check | filecheck %s --check-prefix=NUMBERS

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 2]} : () -> ()

// CHECK{LITERAL}: func.func @main(%arg0: tensor<4x8xf32> {mesh.sharding = #mesh.shard<[[0], [1]]>}, %arg1: tensor<8x4xf32> {mesh.sharding = #mesh.shard<[[1], []]>})
func.func @main(%x: tensor<4x8xf32>, %w: tensor<8x4xf32>) -> tensor<4x4xf32> attributes {mesh_cluster = @g} {
  %z = arith.constant dense<0.0> : tensor<4x4xf32>
  // CHECK{LITERAL}: linalg.matmul {mesh.shardings = [#mesh.shard<[[0], []]>], sharding = [[0], [], [1]]}
  %0 = linalg.matmul {sharding = [[0], [], [1]]} ins(%x, %w : tensor<4x8xf32>, tensor<8x4xf32>)
      outs(%z : tensor<4x4xf32>) -> tensor<4x4xf32>
  return %0 : tensor<4x4xf32>
}
// NUMBERS: check passed
