// A file without annotations gets Shardy's if it has StableHLO's ops, and else upstream's.
//
// RUN: shard-opt %s --auto=grid=2x2,memory-limit=40000,seconds=2 | filecheck %s
// RUN: sed 's/stablehlo/math/' %s | shard-opt - --auto=grid=2x2,memory-limit=40000,seconds=2 | filecheck %s --check-prefix=UPSTREAM

// CHECK: sdy.mesh @grid = <["axis_0"=2, "axis_1"=2]>
// CHECK: sdy.sharding
// UPSTREAM: shard.grid @grid(shape = 2x2)
// UPSTREAM: shard.shard
func.func @main(%x: tensor<64x128xf32>) -> tensor<64x128xf32> {
  %0 = stablehlo.tanh %x : tensor<64x128xf32>
  return %0 : tensor<64x128xf32>
}
