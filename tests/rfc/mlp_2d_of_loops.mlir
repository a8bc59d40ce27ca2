mesh.cluster @mesh0(rank = 3, dim_sizes = [2, 2, 2])

func.func @mlp_2d_weight_stationary(%arg0: tensor<2x4x8xf32>,
                                    %arg1: tensor<8x32xf32>,
                                    %arg2: tensor<32x8xf32>) ->
    tensor<2x4x8xf32> attributes {mesh_cluster = @mesh0} {
%0 = mesh.annotate %arg0 {#mesh.shard<[[], [], [0, 1, 2]]>} : tensor<2x4x8xf32>
%1 = "mhlo.dot_general"(%0, %arg1) {dot_dimension_numbers = #mhlo.dot<lhs_contracting_dimensions = [2], rhs_contracting_dimensions = [0]>, sharding = [[], [], [1, 2], [0]]} :
    (tensor<2x4x8xf32>, tensor<8x32xf32>) -> tensor<2x4x32xf32>
%2 = mhlo.constant dense<0.000000e+00> : tensor<2x4x32xf32>
%3 = mhlo.maximum %1, %2 : tensor<2x4x32xf32>
%4 = "mhlo.dot_general"(%3, %arg2) {dot_dimension_numbers = #mhlo.dot<lhs_contracting_dimensions = [2], rhs_contracting_dimensions = [0]>, sharding = [[], [], [0], [1, 2]]} :
    (tensor<2x4x32xf32>, tensor<32x8xf32>) -> tensor<2x4x8xf32>
%5 = mesh.annotate %4 {as_result = false, #mesh.shard<[[], [], [0, 1, 2]]>} : tensor<2x4x8xf32>
return %5 : tensor<2x4x8xf32>

}
