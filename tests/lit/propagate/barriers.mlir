// A barrier lets shardings pass in the direction that it names, and in no other.
//
// RUN: shard-opt %s --propagate | filecheck %s
// RUN: shard-opt %s --spmd --mlir-print-op-generic | filecheck %s --check-prefix=LOCAL

"mesh.cluster"() {sym_name = "g", rank = 1 : i64, dim_sizes = [2]} : () -> ()

// LOCAL-NOT: mesh.propagation_barrier

// CHECK-LABEL: func.func @forward
// CHECK: math.tanh
// CHECK-SAME{LITERAL}: mesh.shardings = [#mesh.shard<@g, [[0]]>]
func.func @forward(%x: tensor<4xf32> {mesh.sharding = #mesh.shard<@g, [[0]]>}) -> tensor<4xf32> {
  %0 = "mesh.propagation_barrier"(%x) {allowed_direction = "forward"}
    : (tensor<4xf32>) -> tensor<4xf32>
  %1 = math.tanh %0 : tensor<4xf32>
  return %1 : tensor<4xf32>
}

// CHECK-LABEL: func.func @not_backward
// CHECK: math.tanh
// CHECK-SAME{LITERAL}: mesh.shardings = [#mesh.shard<@g, [[]]>]
func.func @not_backward(%x: tensor<4xf32>) -> (tensor<4xf32> {mesh.sharding = #mesh.shard<@g, [[0]]>}) {
  %0 = math.tanh %x : tensor<4xf32>
  %1 = "mesh.propagation_barrier"(%0) {allowed_direction = "forward"}
    : (tensor<4xf32>) -> tensor<4xf32>
  return %1 : tensor<4xf32>
}

// CHECK-LABEL: func.func @backward
// CHECK: math.tanh
// CHECK-SAME{LITERAL}: mesh.shardings = [#mesh.shard<@g, [[0]]>]
func.func @backward(%x: tensor<4xf32>) -> (tensor<4xf32> {mesh.sharding = #mesh.shard<@g, [[0]]>}) {
  %0 = math.tanh %x : tensor<4xf32>
  %1 = "mesh.propagation_barrier"(%0) {allowed_direction = "backward"}
    : (tensor<4xf32>) -> tensor<4xf32>
  return %1 : tensor<4xf32>
}

// CHECK-LABEL: func.func @none
// CHECK: math.tanh
// CHECK-SAME{LITERAL}: mesh.shardings = [#mesh.shard<@g, [[]]>]
func.func @none(%x: tensor<4xf32> {mesh.sharding = #mesh.shard<@g, [[0]]>}) -> tensor<4xf32> {
  %0 = "mesh.propagation_barrier"(%x) {allowed_direction = "none"}
    : (tensor<4xf32>) -> tensor<4xf32>
  %1 = math.tanh %0 : tensor<4xf32>
  return %1 : tensor<4xf32>
}
