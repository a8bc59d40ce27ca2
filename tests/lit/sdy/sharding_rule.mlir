// An op's own rule has factors, of kinds, several to a dimension or none.
//
// RUN: shard-opt %s --verify-roundtrip | filecheck %s

func.func private @f(tensor<8x4xf32>, tensor<4x2xf32>) -> tensor<8x2xf32>

// CHECK-LABEL: func.func @rules
func.func @rules(%x: tensor<8x4xf32>, %y: tensor<4x2xf32>) -> tensor<8x2xf32> {
  // CHECK{LITERAL}: {sdy.sharding_rule = #sdy.op_sharding_rule<([i, k], [k, j])->([i, j]) {i=8, j=2, k=4} reduction={k}>}
  %0 = func.call @f(%x, %y) {sdy.sharding_rule = #sdy.op_sharding_rule<([i, k], [k, j])->([i, j]) {i=8, j=2, k=4} reduction={k}>}
      : (tensor<8x4xf32>, tensor<4x2xf32>) -> tensor<8x2xf32>
  // CHECK{LITERAL}: {sdy.sharding_rule = #sdy.op_sharding_rule<([ij, *], [k, l])->([ij, *]) {i=2, j=4, k=4, l=2} need_replication={k, l} permutation={i}, custom>}
  %1 = func.call @f(%x, %y) {sdy.sharding_rule = #sdy.op_sharding_rule<([ij, *], [k, l])->([ij, *]) {i=2, j=4, k=4, l=2} need_replication={k, l} permutation={i}, custom>}
      : (tensor<8x4xf32>, tensor<4x2xf32>) -> tensor<8x2xf32>
  // CHECK{LITERAL}: blocked_propagation={i}
  %2 = func.call @f(%x, %y) {sdy.sharding_rule = #sdy.op_sharding_rule<([i, j], [*, *])->([i, *]) {i=8, j=4} blocked_propagation={i}>}
      : (tensor<8x4xf32>, tensor<4x2xf32>) -> tensor<8x2xf32>
  return %2 : tensor<8x2xf32>
}
