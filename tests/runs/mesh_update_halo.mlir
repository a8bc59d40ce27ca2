mesh.cluster @g(rank = 1, dim_sizes = [4])
func.func @main(%x: tensor<1x12x2xf32>, %w: tensor<3x2x4xf32>) -> tensor<1x10x4xf32>
    attributes {mesh_cluster = @g} {
  %0 = mesh.annotate %x {sharding = [[], [0]]} : tensor<1x12x2xf32>
  %init = tensor.empty() : tensor<1x10x4xf32>
  %zero = arith.constant 0.0 : f32
  %fill = linalg.fill ins(%zero : f32) outs(%init : tensor<1x10x4xf32>) -> tensor<1x10x4xf32>
  // The window of 3 reads a halo of the next shard, for which --materialize writes mesh.update_halo.
  %1 = linalg.conv_1d_nwc_wcf ins(%0, %w : tensor<1x12x2xf32>, tensor<3x2x4xf32>)
    outs(%fill : tensor<1x10x4xf32>) -> tensor<1x10x4xf32>
  %2 = mesh.annotate %1 {sharding = [[], [0]]} : tensor<1x10x4xf32>
  return %2 : tensor<1x10x4xf32>
}
