// RUN: shard-opt %s --verify-diagnostics

shard.grid @g(shape = 2)
func.func @main(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  // expected-error@+1 {{grid axis 1 in split axes [[1], []] is not in grid @g of rank 1}}
  %s = shard.sharding @g split_axes = [[1], []] : !shard.sharding
  %0 = shard.shard %x to %s : tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}
