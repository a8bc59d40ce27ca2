shard.grid @g(shape = 2x3)
func.func @main(%x: tensor<6xf32>) -> (tensor<6xf32>, tensor<4xindex>) {
  %s = shard.sharding @g split_axes = [[0, 1]]
  %0 = shard.shard %x to %s : tensor<6xf32>
  %n:2 = shard.grid_shape @g : index, index
  %one = arith.constant 1 : index
  %down, %up = shard.neighbors_linear_indices on @g[%one, %n#0] split_axes = [0] : index, index
  %all = tensor.from_elements %n#0, %n#1, %down, %up : tensor<4xindex>
  %1 = math.exp %0 : tensor<6xf32>
  return %1, %all : tensor<6xf32>, tensor<4xindex>
}
