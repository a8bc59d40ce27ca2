mesh.cluster @mesh0(rank = 1, dim_sizes = [2])
func.func @mlp(%arg0: tensor<2x4x8xf32>, %arg1: tensor<8x32xf32>, %arg2: tensor<32x8xf32>) -> tensor<2x4x8xf32> attributes { mesh_cluster = @mesh0 } {
%0 = mesh.annotate %arg0 {required = true, sharding = [[], [], [0]]} : tensor<2x4x8xf32> -> tensor<2x4x8xf32>
%1 = "mhlo.dot_general"(%0, %arg1) {
dot_dimension_numbers = #mhlo.dot<lhs_contracting_dimensions = [2],
rhs_contracting_dimensions = [0]>,
precision_config =
[#mhlo<precision DEFAULT>, #mhlo<precision DEFAULT>]
} : (tensor<2x4x8xf32>, tensor<8x32xf32>) -> tensor<2x4x32xf32>
%2 = mhlo.constant dense<0.000000e+00> : tensor<2x4x32xf32>
%3 = mhlo.maximum %1, %2 : tensor<2x4x32xf32>
%4 = "mhlo.dot_general"(%3, %arg2) {
dot_dimension_numbers = #mhlo.dot<lhs_contracting_dimensions = [2],
rhs_contracting_dimensions = [0]>,
precision_config = [#mhlo<precision DEFAULT>, #mhlo<precision DEFAULT>]
} : (tensor<2x4x32xf32>, tensor<32x8xf32>) -> tensor<2x4x8xf32>
%5 = mesh.annotate %4 {required = true, sharding = [[], [], [], [0]]} : tensor<2x4x8xf32> -> tensor<2x4x8xf32>
%6 = mesh.annotate %5 {as_result = false, required = true, sharding = [[], [], [0]]} : tensor<2x4x8xf32> -> tensor<2x4x8xf32>
return %6 : tensor<2x4x8xf32>
}
