// What a collective gave may be written over in place only where no later collective reads it.
//
// RUN: shard-run %s --check | filecheck %s

// CHECK: all_gather
// CHECK: check passed

shard.grid @g(shape = 4)
func.func @main(%x: tensor<12x12xf32>) -> tensor<12x12xf32> {
  %s = shard.sharding @g split_axes = [[], [0]] : !shard.sharding
  %xs = shard.shard %x to %s annotate_for_users : tensor<12x12xf32>
  %corner = tensor.extract_slice %xs[6, 6] [6, 6] [1, 1] : tensor<12x12xf32> to tensor<6x6xf32>
  %sine = math.sin %corner : tensor<6x6xf32>
  %0 = tensor.insert_slice %sine into %xs[6, 6] [6, 6] [1, 1]
    : tensor<6x6xf32> into tensor<12x12xf32>
  %1 = math.tanh %0 : tensor<12x12xf32>
  %2 = linalg.matmul ins(%1, %xs : tensor<12x12xf32>, tensor<12x12xf32>)
    outs(%x : tensor<12x12xf32>) -> tensor<12x12xf32>
  return %2 : tensor<12x12xf32>
}
