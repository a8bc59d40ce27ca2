// What a region reads from outside is gathered in front of its op.
//
// RUN: shard-run %s --check | filecheck %s

// CHECK: all_gather 0 2 2xf32 4xf32
// CHECK: check passed

#id = affine_map<(i) -> (i)>
shard.grid @g(shape = 2)
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %s = shard.sharding @g split_axes = [[0]] : !shard.sharding
  %xs = shard.shard %x to %s : tensor<4xf32>
  %e = tensor.empty() : tensor<4xf32>
  %0 = linalg.generic {indexing_maps = [#id], iterator_types = ["parallel"]}
      outs(%e : tensor<4xf32>) {
  ^bb0(%out: f32):
    %i = linalg.index 0 : index
    %last = arith.constant 3 : index
    %j = arith.subi %last, %i : index
    %v = tensor.extract %xs[%j] : tensor<4xf32>
    linalg.yield %v : f32
  } -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
