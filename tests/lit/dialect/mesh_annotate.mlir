// An annotation is of a value itself or for its users, a fact or a hint, on its own grid or another.
//
// RUN: shard-opt %s --verify-roundtrip | filecheck %s
// RUN: shard-opt %s | shard-opt | filecheck %s
// RUN: shard-opt %s --mlir-print-op-generic | shard-opt | filecheck %s

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 4]} : () -> ()
"mesh.cluster"() {sym_name = "h", rank = 1 : i64, dim_sizes = [2]} : () -> ()

// CHECK-LABEL: func.func @the_functions_grid
// CHECK-SAME: attributes {mesh_cluster = @g}
func.func @the_functions_grid(%x: tensor<4x8xf32>) -> tensor<4x8xf32> attributes {mesh_cluster = @g} {
  // CHECK{LITERAL}: mesh.annotate %arg0 {sharding = [[], [0]]} : tensor<4x8xf32> -> tensor<4x8xf32>
  %0 = "mesh.annotate"(%x) {sharding = [[], [0]]} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  // CHECK{LITERAL}: mesh.annotate %0 {as_result = false, required = true, sharding = [[1, 0]]}
  %1 = "mesh.annotate"(%0) {sharding = [[1, 0]], required = true, as_result = false}
      : (tensor<4x8xf32>) -> tensor<4x8xf32>
  // CHECK{LITERAL}: mesh.annotate %1 {as_result = false, required = false, sharding = [[], [], [0]]}
  %2 = "mesh.annotate"(%1) {sharding = [[], [], [0]], required = false, as_result = false}
      : (tensor<4x8xf32>) -> tensor<4x8xf32>
  // CHECK{LITERAL}: mesh.annotate %2 {as_result = false, required, sharding = [array<i64: 1>]}
  %3 = "mesh.annotate"(%2) {sharding = [array<i64: 1>], required, as_result = false}
      : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return %3 : tensor<4x8xf32>
}

// CHECK-LABEL: func.func @its_own_grid
func.func @its_own_grid(%x: tensor<4x8xf32>) -> tensor<4x8xf32> attributes {mesh_cluster = @g} {
  // CHECK{LITERAL}: mesh.annotate %arg0 {sharding = #mesh.shard<@h, [[], [0]]>}
  %0 = "mesh.annotate"(%x) {sharding = #mesh.shard<@h, [[], [0]]>} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}

// CHECK-LABEL: func.func @sizes_given_by_operands
func.func @sizes_given_by_operands(%x: tensor<4x8xf32>, %y: tensor<4x8xf32>, %a: i64, %b: i64) {
  // CHECK{LITERAL}: mesh.annotate %arg0, %arg2, %arg3 {sharding = #mesh.shard<@g, [[0], [], {halo = [["?", "?"], []]}]>} : tensor<4x8xf32>, i64, i64 -> tensor<4x8xf32>
  %0 = "mesh.annotate"(%x, %a, %b) {sharding = #mesh.shard<@g, [[0], [], {halo = [["?", "?"], []]}]>}
      : (tensor<4x8xf32>, i64, i64) -> tensor<4x8xf32>
  // CHECK{LITERAL}: mesh.annotate %arg1, %arg2 {sharding = #mesh.shard<@g, [[0], [], {offsets = [[0, "?", 4], []]}]>} : tensor<4x8xf32>, i64 -> tensor<4x8xf32>
  %1 = "mesh.annotate"(%y, %a) {sharding = #mesh.shard<@g, [[0], [], {offsets = [[0, "?", 4], []]}]>}
      : (tensor<4x8xf32>, i64) -> tensor<4x8xf32>
  return
}

// CHECK-LABEL: func.func @sizes_of_tensors
func.func @sizes_of_tensors(%x: tensor<f32>, %y: tensor<?x8xf32>, %z: tensor<5xf32>) attributes {mesh_cluster = @g} {
  // CHECK: mesh.annotate %arg0 {sharding = []} : tensor<f32> -> tensor<f32>
  %0 = "mesh.annotate"(%x) {sharding = []} : (tensor<f32>) -> tensor<f32>
  // CHECK{LITERAL}: mesh.annotate %arg1 {sharding = [[0], [1]]} : tensor<?x8xf32> -> tensor<?x8xf32>
  %1 = "mesh.annotate"(%y) {sharding = [[0], [1]]} : (tensor<?x8xf32>) -> tensor<?x8xf32>
  // CHECK{LITERAL}: mesh.annotate %arg2 {sharding = [[0]]} : tensor<5xf32> -> tensor<5xf32>
  %2 = "mesh.annotate"(%z) {sharding = [[0]]} : (tensor<5xf32>) -> tensor<5xf32>
  return
}
