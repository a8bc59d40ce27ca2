mesh.cluster @g(rank = 2, dim_sizes = [2, 2])
func.func @main(%x: tensor<8x6xf32>) -> tensor<8x6xf32> attributes {mesh_cluster = @g} {
  %0 = mesh.annotate %x {sharding = [[0], [1]], as_result = true} : tensor<8x6xf32>
  %1 = math.exp %0 : tensor<8x6xf32>
  %2 = mesh.reshard %1 {sharding = [[1, 0]]} : tensor<8x6xf32>
  %3 = math.tanh %2 : tensor<8x6xf32>
  return %3 : tensor<8x6xf32>
}
