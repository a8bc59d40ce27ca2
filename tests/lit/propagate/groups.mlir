// The members of a sharding group are split alike, though no op is between them.
//
// RUN: shard-opt %s --propagate | filecheck %s
// RUN: shard-run %s --check | filecheck %s --check-prefix=NUMBERS

"mesh.cluster"() {sym_name = "g", rank = 1 : i64, dim_sizes = [2]} : () -> ()

// CHECK-LABEL: func.func @main
// CHECK-SAME{LITERAL}: %arg1: tensor<4x8xf32> {mesh.sharding = #mesh.shard<@g, [[], [0]]>}
// NUMBERS: check passed
func.func @main(%x: tensor<4x8xf32> {mesh.sharding = #mesh.shard<@g, [[], [0]]>}, %y: tensor<4x8xf32>)
    -> (tensor<4x8xf32>, tensor<4x8xf32>) {
  "mesh.sharding_group"(%x) {group_id = 7 : i64} : (tensor<4x8xf32>) -> ()
  "mesh.sharding_group"(%y) {group_id = 7 : i64} : (tensor<4x8xf32>) -> ()
  %0 = math.tanh %x : tensor<4x8xf32>
  %1 = math.tanh %y : tensor<4x8xf32>
  return %0, %1 : tensor<4x8xf32>, tensor<4x8xf32>
}
