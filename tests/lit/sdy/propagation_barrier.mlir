// A barrier lets shardings pass one way, or not at all.
//
// RUN: shard-opt %s --verify-roundtrip | filecheck %s

// CHECK-LABEL: func.func @barriers
func.func @barriers(%x: tensor<8xf32>) -> tensor<8xf32> {
  // CHECK: "sdy.propagation_barrier"(%arg0) {allowed_direction = 0 : i32} : (tensor<8xf32>) -> tensor<8xf32>
  %0 = "sdy.propagation_barrier"(%x) <{allowed_direction = 0 : i32}> : (tensor<8xf32>) -> tensor<8xf32>
  // CHECK: "sdy.propagation_barrier"(%0) {allowed_direction = 1 : i32}
  %1 = "sdy.propagation_barrier"(%0) <{allowed_direction = 1 : i32}> : (tensor<8xf32>) -> tensor<8xf32>
  // CHECK: "sdy.propagation_barrier"(%1) {allowed_direction = 2 : i32}
  %2 = "sdy.propagation_barrier"(%1) <{allowed_direction = 2 : i32}> : (tensor<8xf32>) -> tensor<8xf32>
  return %2 : tensor<8xf32>
}
