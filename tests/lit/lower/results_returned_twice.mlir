// A result that is returned twice is copied, also where only bufferization makes the two one.
//
// RUN: shard-run %s --check | filecheck %s
// RUN: shard-opt %s --spmd --lower | filecheck %s --check-prefix=LOWERED

// CHECK: check passed
// LOWERED: memref.copy

shard.grid @g(shape = 2)
func.func @main(%x: tensor<4xi32>) -> (tensor<4xi32>, tensor<4xi32>) {
  %s = shard.sharding @g split_axes = [[0]] : !shard.sharding
  %xs = shard.shard %x to %s : tensor<4xi32>
  %0 = arith.muli %xs, %xs : tensor<4xi32>
  %1 = arith.andi %0, %0 : tensor<4xi32>
  return %0, %1 : tensor<4xi32>, tensor<4xi32>
}
