mesh.cluster @g(rank = 1, dim_sizes = [4])
func.func @main(%x: tensor<8x8xf32>) -> tensor<8x8xf32> attributes {mesh_cluster = @g} {
  %0 = mesh.annotate %x {sharding = [[0]]} : tensor<8x8xf32>
  %1 = scf.execute_region -> tensor<8x8xf32> no_inline {
    %a = math.exp %0 : tensor<8x8xf32>
    scf.yield %a : tensor<8x8xf32>
  } {mesh.named_computation = "exponential"}
  return %1 : tensor<8x8xf32>
}
