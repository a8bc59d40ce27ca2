// Loops and branches of StableHLO: state that goes around, a barrier, and what both branches give.
//
// RUN: shard-opt %s --spmd | filecheck %s
// RUN: shard-run %s --check | filecheck %s --check-prefix=NUMBERS

// CHECK: stablehlo.while{{.*}} : tensor<i32>, tensor<4x4xf32>
// CHECK: shard.all_gather
// CHECK: stablehlo.dot_general {{.*}} : (tensor<4x8xf32>, tensor<8x4xf32>) -> tensor<4x4xf32>
// CHECK: stablehlo.optimization_barrier {{.*}} : tensor<4x4xf32>
// CHECK: stablehlo.case
// CHECK: stablehlo.exponential {{.*}} : tensor<4x4xf32>
// NUMBERS: check passed
"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 2]} : () -> ()
func.func @main(%x: tensor<8x8xf32> {mesh.sharding = #mesh.shard<@g, [[0], []]>}, %w: tensor<8x8xf32> {mesh.sharding = #mesh.shard<@g, [[], [1]]>}, %p: tensor<i32>) -> tensor<8x8xf32> {
  %c0 = stablehlo.constant dense<0> : tensor<i32>
  %c1 = stablehlo.constant dense<1> : tensor<i32>
  %c3 = stablehlo.constant dense<3> : tensor<i32>
  %r:2 = stablehlo.while(%i = %c0, %a = %x) : tensor<i32>, tensor<8x8xf32>
  cond {
    %q = stablehlo.compare LT, %i, %c3 : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %q : tensor<i1>
  } do {
    %m = stablehlo.dot_general %a, %w, contracting_dims = [1] x [0] : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    %t = stablehlo.tanh %m : tensor<8x8xf32>
    %n = stablehlo.add %i, %c1 : tensor<i32>
    stablehlo.return %n, %t : tensor<i32>, tensor<8x8xf32>
  }
  %z = stablehlo.optimization_barrier %r#1 : tensor<8x8xf32>
  %y = "stablehlo.case"(%p) ({
    %t = stablehlo.exponential %z : tensor<8x8xf32>
    stablehlo.return %t : tensor<8x8xf32>
  }, {
    %t = stablehlo.transpose %z, dims = [1, 0] : (tensor<8x8xf32>) -> tensor<8x8xf32>
    stablehlo.return %t : tensor<8x8xf32>
  }) : (tensor<i32>) -> tensor<8x8xf32>
  return %y : tensor<8x8xf32>
}
