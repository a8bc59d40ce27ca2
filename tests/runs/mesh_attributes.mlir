mesh.cluster @g(rank = 2, dim_sizes = [2, 2])
func.func @main(%x: tensor<8x6xf32> {mesh.sharding = #mesh.shard<[[0]]>},
                %y: tensor<6x4xf32, #mesh.shard<[[1]]>>)
    -> (tensor<8x4xf32> {mesh.sharding = #mesh.shard<[[1], [0]]>}) attributes {mesh_cluster = @g} {
  %0 = math.exp %x {mesh.shardings = [#mesh.shard<[[0], [1]]>]} : tensor<8x6xf32>
  %1 = stablehlo.dot_general %0, %y, contracting_dims = [1] x [0]
    : (tensor<8x6xf32>, tensor<6x4xf32, #mesh.shard<[[1]]>>) -> tensor<8x4xf32>
  return %1 : tensor<8x4xf32>
}
