// Shardy's annotations in upstream's words; the names of axes stay with the grid.
//
// RUN: shard-opt %s --export-shard | filecheck %s
// RUN: shard-opt %s --export-shard --export-sdy | filecheck %s --check-prefix=BACK

// CHECK: shard.grid @m(shape = 2x4) {axis_names = ["x", "y"]}
// BACK: sdy.mesh @m = <["x"=2, "y"=4]>
"sdy.mesh"() <{mesh = #sdy.mesh<["x"=2, "y"=4]>, sym_name = "m"}> : () -> ()

// CHECK-LABEL: func.func @main
// BACK-LABEL: func.func @main
// BACK-SAME{LITERAL}: sdy.sharding = #sdy.sharding<@m, [{"x"}, {}]>
func.func @main(%x: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@m, [{"x"}, {}]>}) -> tensor<8x8xf32> {
  // CHECK{LITERAL}: shard.sharding @m split_axes = [[0], []] : !shard.sharding
  // CHECK: shard.sharding @m split_axes = {{\[\[}}], [1, 0]] : !shard.sharding
  // CHECK: shard.shard %{{.*}} annotate_for_users : tensor<8x8xf32>
  // BACK{LITERAL}: sdy.sharding_constraint %arg0 <@m, [{}, {"y", "x"}]>
  %0 = "sdy.sharding_constraint"(%x) <{sharding = #sdy.sharding<@m, [{}, {"y", "x"}]>}> : (tensor<8x8xf32>) -> tensor<8x8xf32>
  return %0 : tensor<8x8xf32>
}
