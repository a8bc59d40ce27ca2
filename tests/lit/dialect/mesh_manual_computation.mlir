// In a manual computation tensors are shards along the manual axes; others may split them on.
//
// RUN: shard-opt %s --verify-roundtrip | filecheck %s
// RUN: shard-opt %s --mlir-print-op-generic | shard-opt | filecheck %s

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 4]} : () -> ()

// CHECK-LABEL: func.func @shards_along_one_axis
func.func @shards_along_one_axis(%x: tensor<16x8xf32>, %y: tensor<?x8xf32>, %i: index) -> tensor<16x8xf32> {
  // CHECK: scf.execute_region
  %0 = scf.execute_region -> tensor<16x8xf32> no_inline {
    // CHECK{LITERAL}: mesh.to_local %arg0 {manual_axes = [0], sharding = #mesh.shard<@g, [[0, 1], []]>} : tensor<16x8xf32> -> tensor<8x8xf32>
    %a = "mesh.to_local"(%x) {sharding = #mesh.shard<@g, [[0, 1], []]>, manual_axes = [0]}
        : (tensor<16x8xf32>) -> tensor<8x8xf32>
    // CHECK{LITERAL}: mesh.to_local %arg1 {manual_axes = [0], sharding = #mesh.shard<@g, [[0], []]>} : tensor<?x8xf32> -> tensor<?x8xf32>
    %b = "mesh.to_local"(%y) {sharding = #mesh.shard<@g, [[0], []]>, manual_axes = [0]}
        : (tensor<?x8xf32>) -> tensor<?x8xf32>
    // CHECK{LITERAL}: mesh.to_local %arg2 {manual_axes = [0], sharding = #mesh.shard<@g, []>} : index -> index
    %c = "mesh.to_local"(%i) {sharding = #mesh.shard<@g, []>, manual_axes = [0]} : (index) -> index
    %d = math.tanh %a : tensor<8x8xf32>
    // CHECK{LITERAL}: mesh.to_global %4 {manual_axes = [0], sharding = #mesh.shard<@g, [[0, 1], []]>} : tensor<8x8xf32> -> tensor<16x8xf32>
    %e = "mesh.to_global"(%d) {sharding = #mesh.shard<@g, [[0, 1], []]>, manual_axes = [0]}
        : (tensor<8x8xf32>) -> tensor<16x8xf32>
    scf.yield %e : tensor<16x8xf32>
  // CHECK: {mesh.manual_axes = [0]}
  } {mesh.manual_axes = [0]}
  return %0 : tensor<16x8xf32>
}
