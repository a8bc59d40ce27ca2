// A caller brings arguments to what the callee wants, and takes its results as they lie.
//
// RUN: shard-run %s --check | filecheck %s

// CHECK: all_to_all 0 2 2x8xf32 4x4xf32
// CHECK: check passed

shard.grid @g(shape = 2)
func.func private @columns(%x: tensor<4x8xf32>) -> tensor<4x8xf32> attributes {no_inline} {
  %s = shard.sharding @g split_axes = [[], [0]] : !shard.sharding
  %0 = shard.shard %x to %s : tensor<4x8xf32>
  %1 = math.exp %0 : tensor<4x8xf32>
  return %1 : tensor<4x8xf32>
}
func.func @main(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %s = shard.sharding @g split_axes = [[0]] : !shard.sharding
  %0 = shard.shard %x to %s : tensor<4x8xf32>
  %1 = call @columns(%0) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %2 = math.tanh %1 : tensor<4x8xf32>
  return %2 : tensor<4x8xf32>
}
