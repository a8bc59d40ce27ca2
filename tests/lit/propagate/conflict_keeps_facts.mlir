// Two facts that meet in an elementwise op stay what they are; the result takes the larger claim.
//
// RUN: shard-opt %s --propagate --import  | filecheck %s
// RUN: shard-run %s --check | filecheck %s --check-prefix=NUMBERS

shard.grid @g(shape = 2)

// CHECK{LITERAL}: func.func @main(%arg0: tensor<4x8xf32> {mesh.sharding = #mesh.shard<@g, [[0], []]>}, %arg1: tensor<4x8xf32> {mesh.sharding = #mesh.shard<@g, [[], [0]]>})
func.func @main(%a: tensor<4x8xf32>, %b: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %rows = shard.sharding @g split_axes = [[0]] : !shard.sharding
  %columns = shard.sharding @g split_axes = [[], [0]] : !shard.sharding
  %0 = shard.shard %a to %rows : tensor<4x8xf32>
  %1 = shard.shard %b to %columns : tensor<4x8xf32>
  // CHECK: arith.addf
  %2 = arith.addf %0, %1 : tensor<4x8xf32>
  return %2 : tensor<4x8xf32>
}
// NUMBERS: all_to_all
// NUMBERS: check passed
