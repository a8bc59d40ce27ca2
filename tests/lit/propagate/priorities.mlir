// A dimension of a later priority waits until those of earlier ones have been passed on: here %y's
// rows, by priority 0, settle the sum, and %x's columns, by priority 1, come too late for it.
//
// RUN: shard-opt %s --propagate | filecheck %s
// RUN: shard-run %s --entry=later --check | filecheck %s --check-prefix=NUMBERS

"mesh.cluster"() {sym_name = "g", rank = 1 : i64, dim_sizes = [2]} : () -> ()

// CHECK-LABEL: func.func @later
// CHECK-SAME{LITERAL}: %arg0: tensor<4x8xf32> {mesh.sharding = #mesh.shard<@g, [[], [0]]>}
// CHECK: arith.addf
// CHECK-SAME{LITERAL}: mesh.shardings = [#mesh.shard<@g, [[0], []]>]
// NUMBERS: check passed
func.func @later(
    %x: tensor<4x8xf32> {mesh.sharding = #mesh.shard<@g, [[], [0], {priority = [unit, 1]}]>},
    %y: tensor<4x8xf32> {mesh.sharding = #mesh.shard<@g, [[0], []]>}) -> tensor<4x8xf32> {
  %0 = arith.addf %x, %y : tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}

// CHECK-LABEL: func.func @the_other_way
// CHECK: arith.addf
// CHECK-SAME{LITERAL}: mesh.shardings = [#mesh.shard<@g, [[], [0]]>]
func.func @the_other_way(
    %x: tensor<4x8xf32> {mesh.sharding = #mesh.shard<@g, [[], [0]]>},
    %y: tensor<4x8xf32> {mesh.sharding = #mesh.shard<@g, [[0], [], {priority = [1, unit]}]>})
    -> tensor<4x8xf32> {
  %0 = arith.addf %x, %y : tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}
