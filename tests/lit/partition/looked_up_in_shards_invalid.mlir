// What is looked up in shards is a part of a sum: a type that says otherwise is refused.
//
// RUN: not shard-opt %s --partition 2>&1 | filecheck %s

shard.grid @g(shape = 2)
func.func @f(%table: tensor<64x4xf32, #mesh.shard<@g, [[0]]>>, %ids: tensor<6x1xi32>)
    -> tensor<6x4xf32> attributes {mesh.form = "distributed"} {
  // CHECK{LITERAL}: looked_up_in_shards_invalid.mlir:9:8: error: 'stablehlo.gather' op result 0 is [[], []], but by the other types and its rule it must be [[], [], [0]]
  %0 = "stablehlo.gather"(%table, %ids) <{dimension_numbers = #stablehlo.gather<
      offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>,
      slice_sizes = array<i64: 1, 4>}>
    : (tensor<64x4xf32, #mesh.shard<@g, [[0]]>>, tensor<6x1xi32>) -> tensor<6x4xf32>
  return %0 : tensor<6x4xf32>
}
