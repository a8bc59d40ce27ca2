// A plugin's op runs: its record says how it is lowered, on shards as on the global tensor.
//
// RUN: shard-run %s --load-plugin %S/../driver/Inputs/toy.py --check | filecheck %s
// RUN: not shard-run %s 2>&1 | filecheck %s --check-prefix=WITHOUT

// CHECK: check passed
// WITHOUT: error: operation is of a dialect that is not registered: register it by sd.register_dialect in a plugin, which --load-plugin names, or

shard.grid @grid(shape = 4)

func.func @main(%x: tensor<8x6xf32>, %w: tensor<6x4xf32>, %init: tensor<8x4xf32>) -> tensor<8x4xf32> {
  %columns = shard.sharding @grid split_axes = [[], [0]] : !shard.sharding
  %y = "toy.twice"(%x) : (tensor<8x6xf32>) -> tensor<8x6xf32>
  %ys = shard.shard %y to %columns : tensor<8x6xf32>
  %z = linalg.matmul ins(%ys, %w : tensor<8x6xf32>, tensor<6x4xf32>) outs(%init : tensor<8x4xf32>) -> tensor<8x4xf32>
  return %z : tensor<8x4xf32>
}
