// The step alone, before annotations are imported: it would take their tensors for replicated.
//
// RUN: shard-opt %s --split-input-file --verify-diagnostics --propagate-shardings
// RUN: shard-opt %s --split-input-file --verify-diagnostics --complete-shardings

shard.grid @g(shape = 2)
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %s = shard.sharding @g split_axes = [[0]] : !shard.sharding
  // expected-error@+1 {{'shard.shard' op has not been imported: run --propagate, or --import first}}
  %0 = shard.shard %x to %s : tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

// expected-error@+1 {{'sdy.mesh' op has not been imported: run --propagate, or --import first}}
sdy.mesh @m = <["x"=2]>
func.func @main(%x: tensor<4xf32> {sdy.sharding = #sdy.sharding<@m, [{"x"}]>}) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}
