// Shardings pass a barrier forward, backward, or not at all.
//
// RUN: shard-opt %s --verify-roundtrip | filecheck %s
// RUN: shard-opt %s --mlir-print-op-generic | shard-opt | filecheck %s

// CHECK-LABEL: func.func @barriers
func.func @barriers(%x: tensor<4xf32>) -> tensor<4xf32> {
  // CHECK: mesh.propagation_barrier %arg0 {allowed_direction = "none"} : tensor<4xf32> -> tensor<4xf32>
  %0 = "mesh.propagation_barrier"(%x) {allowed_direction = "none"} : (tensor<4xf32>) -> tensor<4xf32>
  // CHECK: mesh.propagation_barrier %0 {allowed_direction = "forward"}
  %1 = "mesh.propagation_barrier"(%0) {allowed_direction = "forward"} : (tensor<4xf32>) -> tensor<4xf32>
  // CHECK: mesh.propagation_barrier %1 {allowed_direction = "backward"}
  %2 = "mesh.propagation_barrier"(%1) {allowed_direction = "backward"} : (tensor<4xf32>) -> tensor<4xf32>
  return %2 : tensor<4xf32>
}
