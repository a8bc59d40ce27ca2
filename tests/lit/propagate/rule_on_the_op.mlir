// An op's own rule, as text, goes before that of its name; a custom call has no other.
//
// RUN: shard-opt %s --propagate | filecheck %s
// RUN: shard-opt %s --spmd | filecheck %s --check-prefix=LOCAL

"mesh.cluster"() {sym_name = "g", rank = 1 : i64, dim_sizes = [2]} : () -> ()

// CHECK-LABEL: func.func @custom
// CHECK{LITERAL}: mesh.shardings = [#mesh.shard<@g, [[], [0]]>]
// LOCAL-LABEL: func.func @custom
// LOCAL: stablehlo.custom_call @scaled
// LOCAL-SAME: (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
func.func @custom(%x: tensor<4x8xf32> {mesh.sharding = #mesh.shard<@g, [[], [0]]>},
                  %y: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %0 = stablehlo.custom_call @scaled(%x, %y) {
      mesh.sharding_rule = "([i, j], [i, j])->([i, j]) {i=4, j=8}"
    } : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}

// What an op needs whole is gathered for it; its result may lie as its operand all the same.
// CHECK-LABEL: func.func @kept
// CHECK: math.tanh
// CHECK-SAME{LITERAL}: [[], [0]]
// LOCAL-LABEL: func.func @kept
// LOCAL: shard.all_gather
// LOCAL: math.tanh
// LOCAL-SAME: tensor<4x8xf32>
func.func @kept(%x: tensor<4x8xf32> {mesh.sharding = #mesh.shard<@g, [[], [0]]>})
    -> tensor<4x8xf32> {
  %0 = math.tanh %x {
      mesh.sharding_rule = "([i, j])->([i, j]) {i=4, j=8} need_replication={j}"
    } : tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}

// Unless the rule says that nothing passes.
// CHECK-LABEL: func.func @blocked
// CHECK: math.tanh
// CHECK-SAME{LITERAL}: [[], []]
func.func @blocked(%x: tensor<4x8xf32> {mesh.sharding = #mesh.shard<@g, [[], [0]]>})
    -> tensor<4x8xf32> {
  %0 = math.tanh %x {
      mesh.sharding_rule = "([i, j])->([i, j]) {i=4, j=8} need_replication={j} blocked_propagation={j}"
    } : tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}

// Sizes may be left out, and a reduction be other than a sum.
// CHECK-LABEL: func.func @without_sizes
// CHECK: stablehlo.custom_call
// CHECK-SAME{LITERAL}: [[]]
// LOCAL-LABEL: func.func @without_sizes
// LOCAL: stablehlo.custom_call @largest
// LOCAL-SAME: (tensor<4x4xf32>) -> tensor<4xf32>
// LOCAL: shard.all_reduce
// LOCAL-SAME: reduction = max
func.func @without_sizes(%x: tensor<4x8xf32> {mesh.sharding = #mesh.shard<@g, [[], [0]]>})
    -> tensor<4xf32> {
  %0 = stablehlo.custom_call @largest(%x) {
      mesh.sharding_rule = "([i, j]) -> ([i]) reduction={j: max}"
    } : (tensor<4x8xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// A sum that the rule does not name: the inner dimension is gathered, since the result would be a part.
// CHECK-LABEL: func.func @forgotten_sum
// LOCAL-LABEL: func.func @forgotten_sum
// LOCAL-COUNT-2: shard.all_gather
// LOCAL: stablehlo.dot {{.*}}(tensor<4x8xf32>, tensor<8x4xf32>)
func.func @forgotten_sum(%x: tensor<4x8xf32> {mesh.sharding = #mesh.shard<@g, [[], [0]]>},
                         %y: tensor<8x4xf32> {mesh.sharding = #mesh.shard<@g, [[0], []]>})
    -> tensor<4x4xf32> {
  %0 = stablehlo.dot %x, %y {
      mesh.sharding_rule = "([i, k], [k, j])->([i, j]) {i=4, j=4, k=8}"
    } : (tensor<4x8xf32>, tensor<8x4xf32>) -> tensor<4x4xf32>
  return %0 : tensor<4x4xf32>
}
