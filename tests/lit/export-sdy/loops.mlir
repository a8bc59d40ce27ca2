// The arguments of a loop's blocks have the sharding of the loop's result. Where no result tells, as
// in the condition of an `scf.while` and in blocks, a constraint without uses does.
//
// RUN: shard-opt %s --propagate --export-sdy | filecheck %s
// RUN: shard-opt %s --propagate --materialize > %t.direct
// RUN: shard-opt %s --propagate --export-sdy --import --materialize > %t.back
// RUN: diff %t.direct %t.back

"mesh.cluster"() {sym_name = "g", rank = 1 : i64, dim_sizes = [2], axis_names = ["x"]} : () -> ()

// CHECK-LABEL: func.func @carried
func.func @carried(%x: tensor<4x8xf32> {mesh.sharding = #mesh.shard<@g, [[0], []]>}, %n: index) -> tensor<4x8xf32> {
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  // CHECK: scf.for
  // CHECK-NEXT: math.tanh
  %r = scf.for %i = %zero to %n step %one iter_args(%v = %x) -> tensor<4x8xf32> {
    %t = math.tanh %v : tensor<4x8xf32>
    scf.yield %t : tensor<4x8xf32>
  // CHECK{LITERAL}: } {sdy.sharding = #sdy.sharding_per_value<[<@g, [{"x"}, {}]>]>}
  }
  return %r : tensor<4x8xf32>
}

// CHECK-LABEL: func.func @before_and_after
func.func @before_and_after(%x: tensor<4x8xf32> {mesh.sharding = #mesh.shard<@g, [[0], []]>}, %n: index) -> tensor<8xi32> {
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  // CHECK: scf.while ([[V:%[a-z0-9]+]] = %arg0,
  // CHECK-NEXT{LITERAL}: sdy.sharding_constraint %arg2 <@g, [{"x"}, {}]> : tensor<4x8xf32>
  // CHECK: } do {
  // CHECK-NOT: sdy.sharding_constraint
  // CHECK: return
  %r, %k = scf.while (%v = %x, %i = %n) : (tensor<4x8xf32>, index) -> (tensor<8xi32>, index) {
    %c = arith.cmpi ugt, %i, %zero : index
    %w = stablehlo.constant dense<3> : tensor<8xi32>
    %j = arith.subi %i, %one : index
    scf.condition(%c) %w, %j : tensor<8xi32>, index
  } do {
  ^bb0(%w: tensor<8xi32>, %i: index):
    %f = stablehlo.convert %w : (tensor<8xi32>) -> tensor<8xf32>
    %t = stablehlo.broadcast_in_dim %f, dims = [1] : (tensor<8xf32>) -> tensor<4x8xf32>
    scf.yield %t, %i : tensor<4x8xf32>, index
  }
  return %r : tensor<8xi32>
}

// CHECK-LABEL: func.func @joined
func.func @joined(%x: tensor<4x8xf32> {mesh.sharding = #mesh.shard<@g, [[0], []]>}, %p: i1) -> tensor<4x8xf32> {
  %y = math.tanh %x : tensor<4x8xf32>
  cf.cond_br %p, ^end(%x : tensor<4x8xf32>), ^end(%y : tensor<4x8xf32>)
// CHECK: ^bb1(%1: tensor<4x8xf32>):
// CHECK-NEXT{LITERAL}: sdy.sharding_constraint %1 <@g, [{"x"}, {}]>
^end(%r: tensor<4x8xf32>):
  return %r : tensor<4x8xf32>
}
