// The RFC's attribute splits an op's loops.
//
// RUN: shard-opt %s --verify-roundtrip | filecheck %s
// RUN: shard-opt %s --mlir-print-op-generic | shard-opt | filecheck %s --check-prefix=GENERIC

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 4]} : () -> ()

// CHECK-LABEL: func.func @product
func.func @product(%a: tensor<8x4xf32>, %b: tensor<4x16xf32>, %c: tensor<8x16xf32>) -> tensor<8x16xf32> attributes {mesh_cluster = @g} {
  // CHECK{LITERAL}: linalg.matmul {sharding = [[0], [], [1]]} ins(
  // GENERIC{LITERAL}: linalg.matmul {sharding = [[0], [], [1]]} ins(
  %0 = linalg.matmul {sharding = [[0], [], [1]]} ins(%a, %b : tensor<8x4xf32>, tensor<4x16xf32>)
      outs(%c : tensor<8x16xf32>) -> tensor<8x16xf32>
  // CHECK{LITERAL}: math.tanh %0 {sharding = [[0]]}
  %1 = math.tanh %0 {sharding = [[0]]} : tensor<8x16xf32>
  return %1 : tensor<8x16xf32>
}
