// The RFC's `sharding` on an op says how its loops are split: the op is computed so, whatever is
// around it.
//
// RUN: shard-opt %s --propagate --materialize | filecheck %s
// RUN: shard-run %s --check | filecheck %s --check-prefix=NUMBERS

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 2]} : () -> ()

// CHECK-LABEL: func.func @main
// CHECK: linalg.matmul ins(
// CHECK-SAME{LITERAL}: tensor<4x8xf32, #mesh.shard<@g, [[0], [1]]>>, tensor<8x16xf32, #mesh.shard<@g, [[1], []]>>
// CHECK: "mesh.all_reduce"
// NUMBERS: check passed
func.func @main(%x: tensor<4x8xf32>, %w: tensor<8x16xf32>, %o: tensor<4x16xf32>)
    -> tensor<4x16xf32> attributes {mesh_cluster = @g} {
  %0 = linalg.matmul {sharding = [[0], [], [1]]}
    ins(%x, %w : tensor<4x8xf32>, tensor<8x16xf32>) outs(%o : tensor<4x16xf32>) -> tensor<4x16xf32>
  return %0 : tensor<4x16xf32>
}
