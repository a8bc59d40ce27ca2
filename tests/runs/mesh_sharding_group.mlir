mesh.cluster @g(rank = 1, dim_sizes = [4])
func.func @main(%x: tensor<8x8xf32>, %y: tensor<8x8xf32>) -> (tensor<8x8xf32>, tensor<8x8xf32>)
    attributes {mesh_cluster = @g} {
  %0 = mesh.annotate %x {sharding = [[], [0]]} : tensor<8x8xf32>
  mesh.sharding_group %0 {group_id = 1} : tensor<8x8xf32>
  mesh.sharding_group %y {group_id = 1} : tensor<8x8xf32>
  %1 = math.exp %0 : tensor<8x8xf32>
  %2 = math.tanh %y : tensor<8x8xf32>
  return %1, %2 : tensor<8x8xf32>, tensor<8x8xf32>
}
