// A block that nothing branches to is no hindrance, nor is it that MLIR drops it on the way.
//
// RUN: shard-opt %s --propagate --canonicalize --materialize --partition | filecheck %s --check-prefix=LOCAL
// RUN: shard-run %s --check | filecheck %s

// LOCAL: func.func @main(%{{.*}}: tensor<2x4xf32>
// LOCAL-NOT: math.sin
// CHECK: check passed

shard.grid @g(shape = 2)
func.func @main(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %s = shard.sharding @g split_axes = [[0]] : !shard.sharding
  %xs = shard.shard %x to %s : tensor<4x4xf32>
  cf.br ^b(%xs : tensor<4x4xf32>)
^a(%z: tensor<4x4xf32>):
  %y = math.sin %z : tensor<4x4xf32>
  cf.br ^b(%y : tensor<4x4xf32>)
^b(%k: tensor<4x4xf32>):
  %e = math.exp %k : tensor<4x4xf32>
  return %e : tensor<4x4xf32>
}
