mesh.cluster @g(rank = 1, dim_sizes = [4])
func.func @main(%x: tensor<8x8xf32>) -> tensor<8x8xf32> attributes {mesh_cluster = @g} {
  %0 = mesh.annotate %x {sharding = [[0]]} : tensor<8x8xf32>
  %1 = mesh.propagation_barrier %0 {allowed_direction = "none"} : tensor<8x8xf32>
  %2 = math.exp %1 : tensor<8x8xf32>
  return %2 : tensor<8x8xf32>
}
