// A named computation is a region with a name, its results with a sharding or without.
//
// RUN: shard-opt %s --verify-roundtrip | filecheck %s
// RUN: shard-opt %s --mlir-print-op-generic | shard-opt | filecheck %s

"mesh.cluster"() {sym_name = "g", rank = 1 : i64, dim_sizes = [2]} : () -> ()

// CHECK-LABEL: func.func @named
func.func @named(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0:2 = scf.execute_region -> (tensor<4xf32>, tensor<4xf32>) no_inline {
    %a = "mesh.annotate"(%x) {sharding = #mesh.shard<@g, [[0]]>, as_result = false}
        : (tensor<4xf32>) -> tensor<4xf32>
    %b = math.tanh %a : tensor<4xf32>
    scf.yield %b, %x : tensor<4xf32>, tensor<4xf32>
  // CHECK{LITERAL}: {mesh.named_computation = "block", mesh.shardings = [#mesh.shard<@g, [[0]]>, unit]}
  } {mesh.named_computation = "block", mesh.shardings = [#mesh.shard<@g, [[0]]>, unit]}
  return %0 : tensor<4xf32>
}
