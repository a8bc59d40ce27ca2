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

// A constant has a copy for each of its users, and all of them are in the group.
//
// CHECK-LABEL: func.func @of_a_constant
// CHECK-SAME{LITERAL}: -> (tensor<8x2xi32> {mesh.sharding = #mesh.shard<@g, [[0], []]>},
// CHECK-SAME{LITERAL}: tensor<8x2xi32> {mesh.sharding = #mesh.shard<@g, [[0], []]>})
// CHECK: stablehlo.iota {{.*}}[#mesh.shard<@g, {{\[\[}}0], []]>]
// CHECK-NOT: stablehlo.iota
func.func @of_a_constant(%x: tensor<8x2xi32> {mesh.sharding = #mesh.shard<@g, [[0], []]>})
    -> (tensor<8x2xi32>, tensor<8x2xi32>) {
  %i = stablehlo.iota dim = 0 : tensor<8x2xi32>
  "mesh.sharding_group"(%x) {group_id = 7 : i64} : (tensor<8x2xi32>) -> ()
  "mesh.sharding_group"(%i) {group_id = 7 : i64} : (tensor<8x2xi32>) -> ()
  %1 = stablehlo.negate %i : tensor<8x2xi32>
  return %i, %1 : tensor<8x2xi32>, tensor<8x2xi32>
}
