// A table that is split along what is looked up is gathered only where it is smaller than what is
// made of it; else each device looks up its own shard, and the results are added up.
//
// RUN: shard-opt %s --propagate --materialize | filecheck %s

shard.grid @g(shape = 2)

// CHECK-LABEL: func.func @large
// CHECK: %[[ROWS:.*]] = "stablehlo.gather"(%arg0, %arg1)
// CHECK-SAME{LITERAL}: (tensor<64x4xf32, #mesh.shard<@g, [[0], []]>>, tensor<6x1xi32>) -> tensor<6x4xf32, #mesh.shard<@g, [[], [], [0]]>>
// CHECK: mesh.all_reduce %[[ROWS]] {mesh_axis = [0], reduction = "sum"}
func.func @large(%table: tensor<64x4xf32> {mesh.sharding = #mesh.shard<@g, [[0]]>},
                 %ids: tensor<6x1xi32>) -> (tensor<6x4xf32> {mesh.sharding = #mesh.shard<@g, [[]]>}) {
  %0 = "stablehlo.gather"(%table, %ids) <{dimension_numbers = #stablehlo.gather<
      offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>,
      slice_sizes = array<i64: 1, 4>}>
    : (tensor<64x4xf32>, tensor<6x1xi32>) -> tensor<6x4xf32>
  return %0 : tensor<6x4xf32>
}

// CHECK-LABEL: func.func @large_to_shards
// CHECK: %[[ROWS:.*]] = "stablehlo.gather"(%arg0, %arg1)
// CHECK: mesh.reduce_scatter %[[ROWS]] {mesh_axis = [0], reduction = "sum", tensor_axis = 1 : i64}
func.func @large_to_shards(
    %table: tensor<64x4xf32> {mesh.sharding = #mesh.shard<@g, [[0]]>},
    %ids: tensor<6x1xi32>) -> (tensor<6x4xf32> {mesh.sharding = #mesh.shard<@g, [[], [0]]>}) {
  %0 = "stablehlo.gather"(%table, %ids) <{dimension_numbers = #stablehlo.gather<
      offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>,
      slice_sizes = array<i64: 1, 4>}>
    : (tensor<64x4xf32>, tensor<6x1xi32>) -> tensor<6x4xf32>
  return %0 : tensor<6x4xf32>
}

// CHECK-LABEL: func.func @small
// CHECK: %[[TABLE:.*]] = mesh.all_gather %arg0
// CHECK: "stablehlo.gather"(%[[TABLE]], %arg1)
// CHECK-NEXT: return
func.func @small(%table: tensor<8x4xf32> {mesh.sharding = #mesh.shard<@g, [[0]]>},
                 %ids: tensor<60x1xi32>) -> (tensor<60x4xf32> {mesh.sharding = #mesh.shard<@g, [[]]>}) {
  %0 = "stablehlo.gather"(%table, %ids) <{dimension_numbers = #stablehlo.gather<
      offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>,
      slice_sizes = array<i64: 1, 4>}>
    : (tensor<8x4xf32>, tensor<60x1xi32>) -> tensor<60x4xf32>
  return %0 : tensor<60x4xf32>
}

// Back again: each device adds to its own shard, and nothing is moved.
//
// CHECK-LABEL: func.func @back
// CHECK-NOT: "mesh.all
// CHECK: "stablehlo.scatter"
// CHECK{LITERAL}: -> tensor<64x4xf32, #mesh.shard<@g, [[0], []]>>
// CHECK-NOT: "mesh.all
func.func @back(%rows: tensor<6x4xf32>, %ids: tensor<6x1xi32>)
    -> (tensor<64x4xf32> {mesh.sharding = #mesh.shard<@g, [[0]]>}) {
  %zeros = stablehlo.constant dense<0.0> : tensor<64x4xf32>
  %0 = "stablehlo.scatter"(%zeros, %ids, %rows) <{scatter_dimension_numbers = #stablehlo.scatter<
      update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0],
      index_vector_dim = 1>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %s = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }) : (tensor<64x4xf32>, tensor<6x1xi32>, tensor<6x4xf32>) -> tensor<64x4xf32>
  return %0 : tensor<64x4xf32>
}
