mesh.cluster @g(rank = 1, dim_sizes = [4])
func.func @main(%x: tensor<8x8xf32>) -> tensor<8x8xf32> attributes {mesh_cluster = @g} {
  %0 = mesh.annotate %x {sharding = [[0]]} : tensor<8x8xf32>
  %1 = math.exp %0 {mesh.sharding_rule = "([i, j])->([i, j]) {i=8, j=8}"} : tensor<8x8xf32>
  return %1 : tensor<8x8xf32>
}
