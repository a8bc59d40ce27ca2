// A vocabulary that is split: tokens are looked up where they are, those out of bounds too.
//
// RUN: shard-run %s --check | filecheck %s

// CHECK: all_reduce {{.*}} 8x4xf32 {{.*}} 128
// CHECK: total {{.*}} 128
// CHECK: check passed

shard.grid @g(shape = 2)

func.func @main(%table: tensor<64x4xf32> {mesh.sharding = #mesh.shard<@g, [[0]]>},
                %ids: tensor<8x1xi32>) -> (tensor<8x4xf32> {mesh.sharding = #mesh.shard<@g, [[]]>}) {
  %17 = stablehlo.constant dense<17> : tensor<8x1xi32>
  %0 = stablehlo.multiply %ids, %17 : tensor<8x1xi32>
  %1 = "stablehlo.gather"(%table, %0) <{dimension_numbers = #stablehlo.gather<
      offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>,
      slice_sizes = array<i64: 1, 4>}>
    : (tensor<64x4xf32>, tensor<8x1xi32>) -> tensor<8x4xf32>
  return %1 : tensor<8x4xf32>
}
