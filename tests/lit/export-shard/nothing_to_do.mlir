// A program without annotations stays as it is.
//
// RUN: shard-opt %s > %t.before
// RUN: shard-opt %s --export-shard | diff - %t.before
// RUN: shard-opt %s --export-shard | filecheck %s

// CHECK: shard.grid @g(shape = 2)
shard.grid @g(shape = 2)
func.func private @declared(tensor<4xf32>) -> tensor<4xf32>
func.func @plain(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = math.tanh %x : tensor<4xf32>
  return %0 : tensor<4xf32>
}
