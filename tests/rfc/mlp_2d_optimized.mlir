mesh.cluster @mesh0(rank = 3, dim_sizes = [2, 2, 2])

func.func @mlp_2d_weight_stationary(%arg0: tensor<2x4x8xf32, #mesh.shard<[[], [], [0, 1, 2]]>>, %arg1: tensor<8x32xf32, #mesh.shard<[[0], [1, 2]]>>,
    %arg2: tensor<32x8xf32, #mesh.shard<[[1, 2], [0]]>>) -> tensor<2x4x8xf32, #mesh.shard<[[], [], [0, 1, 2]]>> attributes {mesh_cluster = @mesh0} {
%0 = mhlo.constant dense<0.000000e+00> : tensor<2x4x32xf32>
%1 = mesh.all_gather %arg0 {mesh_axis = [[], [], [1, 2]]} : tensor<2x4x8xf32, #mesh.shard<[[], [], [0, 1, 2]]>> ->
    tensor<2x4x8xf32, #mesh.shard<[[], [], [0]]>>
%2 = "mhlo.dot_general"(%1, %arg1) {dot_dimension_numbers = #mhlo.dot<lhs_contracting_dimensions = [2], rhs_contracting_dimensions = [0]>, sharding = [[], [], [1, 2], [0]]} : (tensor<2x4x8xf32, #mesh.shard<[[], [], [0]]>>, tensor<8x32xf32, #mesh.shard<[[0], [1, 2]]>>)
    -> tensor<2x4x32xf32, #mesh.shard<[[], [], [1, 2], [0]]>>
%3 = mesh.reduce_scatter %2 {mesh_axis = [0], reduction = "sum", tensor_axis = 2 : i64} : tensor<2x4x32xf32, #mesh.shard<[[], [], [1, 2], [0]]>> ->
    tensor<2x4x32xf32, #mesh.shard<[[], [], [0, 1, 2]]>>
%4 = mesh.local_split %0 : tensor<2x4x32xf32> -> tensor<2x4x32xf32, #mesh.shard<[[], [], [0, 1, 2]]>>
%5 = mhlo.maximum %3, %4 {sharding = [[], [], [0, 1, 2]]} : tensor<2x4x32xf32, #mesh.shard<[[], [], [0, 1, 2]]>>
%6 = mesh.all_gather %5 {mesh_axis = [[], [], [0]]} : tensor<2x4x32xf32, #mesh.shard<[[], [], [0, 1, 2]]>> ->
    tensor<2x4x32xf32, #mesh.shard<[[], [], [1, 2]]>>
%7 = "mhlo.dot_general"(%6, %arg2) {dot_dimension_numbers = #mhlo.dot<lhs_contracting_dimensions = [2], rhs_contracting_dimensions = [0]>, sharding = [[], [], [0], [1, 2]]} : (tensor<2x4x32xf32, #mesh.shard<[[], [], [1, 2]]>>,
    tensor<32x8xf32, #mesh.shard<[[1, 2], [0]]>>) -> tensor<2x4x8xf32, #mesh.shard<[[], [], [0], [1, 2]]>>
%8 = mesh.reduce_scatter %7 {mesh_axis = [1, 2], reduction = "sum", tensor_axis = 2 : i64} : tensor<2x4x8xf32, #mesh.shard<[[], [], [0], [1, 2]]>> ->
    tensor<2x4x8xf32, #mesh.shard<[[], [], [0, 1, 2]]>>
return %8 : tensor<2x4x8xf32, #mesh.shard<[[], [], [0, 1, 2]]>>
}
