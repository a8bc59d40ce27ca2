// Ops that other passes made since --propagate get their shardings when they are needed.
//
// RUN: shard-opt %s --propagate --canonicalize | filecheck %s --check-prefix=FOLDED
// RUN: shard-opt %s --propagate --canonicalize --materialize | filecheck %s

// FOLDED: arith.constant dense<4.000000e+00>
// CHECK: mesh.local_split

shard.grid @g(shape = 2)
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %s = shard.sharding @g split_axes = [[0]] : !shard.sharding
  %xs = shard.shard %x to %s : tensor<4xf32>
  %two = arith.constant dense<2.0> : tensor<4xf32>
  %four = arith.mulf %two, %two : tensor<4xf32>
  %0 = arith.addf %xs, %four : tensor<4xf32>
  return %0 : tensor<4xf32>
}
