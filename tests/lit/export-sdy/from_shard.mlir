// Upstream's annotations in Shardy's words; an annotation of a value itself is a constraint without uses.
//
// RUN: shard-opt %s --export-sdy | filecheck %s

// CHECK: sdy.mesh @g = <["axis_0"=2, "axis_1"=4]>
shard.grid @g(shape = 2x4)

// CHECK-LABEL: func.func @main
func.func @main(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %s = shard.sharding @g split_axes = [[1, 0]] : !shard.sharding
  %t = shard.sharding @g split_axes = [[], [0]] : !shard.sharding
  // CHECK-NEXT{LITERAL}: %0 = sdy.sharding_constraint %arg0 <@g, [{"axis_1", "axis_0"}, {}]>
  %0 = shard.shard %x to %s : tensor<8x8xf32>
  // CHECK-NEXT{LITERAL}: %1 = sdy.sharding_constraint %arg0 <@g, [{}, {"axis_0"}]>
  %1 = shard.shard %0 to %t annotate_for_users : tensor<8x8xf32>
  // CHECK-NEXT: return %1
  return %1 : tensor<8x8xf32>
}
