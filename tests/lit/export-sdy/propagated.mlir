// All that propagation found is said in Shardy's words, and found again.
//
// RUN: shard-opt %s --propagate --export-sdy | filecheck %s
// RUN: shard-opt %s --propagate --export-sdy --import > %t.back
// RUN: shard-opt %s --propagate --import | diff - %t.back

shard.grid @g(shape = 2)

// CHECK{LITERAL}: func.func @main(%arg0: tensor<4x8xf32> {sdy.sharding = #sdy.sharding<@g, [{"axis_0"}, {}]>}) -> (tensor<4x8xf32> {sdy.sharding = #sdy.sharding<@g, [{"axis_0"}, {}]>}) attributes {propagated}
func.func @main(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %s = shard.sharding @g split_axes = [[0]] : !shard.sharding
  // CHECK: sdy.sharding_constraint %arg0
  %0 = shard.shard %x to %s : tensor<4x8xf32>
  // CHECK{LITERAL}: math.tanh %arg0 {sdy.sharding = #sdy.sharding_per_value<[<@g, [{"axis_0"}, {}]>]>}
  %1 = math.tanh %0 : tensor<4x8xf32>
  return %1 : tensor<4x8xf32>
}
