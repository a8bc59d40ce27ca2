// A gather of a split dimension reads its own shard, and gives zero for what is elsewhere; a
// scatter into one leaves out what is elsewhere.
//
// RUN: shard-opt %s --partition | filecheck %s

shard.grid @g(shape = 2x4)

// CHECK-LABEL: func.func @gather
// CHECK-SAME: %[[TABLE:.*]]: tensor<8x4xf32> {{.*}}, %[[IDS:.*]]: tensor<6x1xi32>
// CHECK: %[[WIDE:.*]] = stablehlo.convert %[[IDS]] : (tensor<6x1xi32>) -> tensor<6x1xi64>
// CHECK: %[[LAST:.*]] = stablehlo.constant dense<63> : tensor<6x1xi64>
// CHECK: %[[READ:.*]] = stablehlo.clamp %{{.*}}, %[[WIDE]], %[[LAST]]
// CHECK: %[[BEGINS:.*]] = arith.constant dense<[0, 8, 16, 24, 32, 40, 48, 56]> : tensor<8xi64>
// CHECK: %[[BEGIN:.*]] = shard.all_slice %[[BEGINS]] on @g grid_axes = [1, 0] slice_axis = 0
// CHECK: %[[OFF:.*]] = stablehlo.broadcast_in_dim %[[BEGIN]], dims = [1]
// CHECK: %[[HERE:.*]] = stablehlo.subtract %[[READ]], %[[OFF]]
// CHECK: %[[NEAREST:.*]] = stablehlo.clamp %{{.*}}, %[[HERE]]
// CHECK: %[[IS_HERE:.*]] = stablehlo.compare EQ, %[[HERE]], %[[NEAREST]]
// CHECK: %[[ROW_IS:.*]] = stablehlo.reshape %[[IS_HERE]] : (tensor<6x1xi1>) -> tensor<6xi1>
// CHECK: %[[ROWS:.*]] = "stablehlo.gather"(%[[TABLE]], %[[NEAREST]])
// CHECK: %[[WHERE:.*]] = stablehlo.broadcast_in_dim %[[ROW_IS]], dims = [0]
// CHECK: %[[ZERO:.*]] = stablehlo.constant dense<-0.000000e+00> : tensor<6x4xf32>
// CHECK: %[[KEPT:.*]] = stablehlo.select %[[WHERE]], %[[ROWS]], %[[ZERO]]
// CHECK: shard.all_reduce %[[KEPT]] on @g grid_axes = [1, 0]
func.func @gather(%table: tensor<64x4xf32, #mesh.shard<@g, [[1, 0]]>>, %ids: tensor<6x1xi32>)
    -> tensor<6x4xf32> attributes {mesh.form = "distributed"} {
  %0 = "stablehlo.gather"(%table, %ids) <{dimension_numbers = #stablehlo.gather<
      offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>,
      slice_sizes = array<i64: 1, 4>}>
    : (tensor<64x4xf32, #mesh.shard<@g, [[1, 0]]>>, tensor<6x1xi32>)
    -> tensor<6x4xf32, #mesh.shard<@g, [[], [], [1, 0]]>>
  %1 = "mesh.all_reduce"(%0) {mesh_axis = [1, 0], reduction = "sum"}
    : (tensor<6x4xf32, #mesh.shard<@g, [[], [], [1, 0]]>>) -> tensor<6x4xf32>
  return %1 : tensor<6x4xf32>
}

// CHECK-LABEL: func.func @columns
// CHECK-NOT: shard.
// CHECK: "stablehlo.gather"(%{{.*}}, %{{.*}}) <{{.*}}slice_sizes = array<i64: 1, 2>
// CHECK-NEXT: return
func.func @columns(%table: tensor<64x4xf32, #mesh.shard<@g, [[], [0]]>>, %ids: tensor<6x1xi32>)
    -> tensor<6x4xf32, #mesh.shard<@g, [[], [0]]>> attributes {mesh.form = "distributed"} {
  %0 = "stablehlo.gather"(%table, %ids) <{dimension_numbers = #stablehlo.gather<
      offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>,
      slice_sizes = array<i64: 1, 4>}>
    : (tensor<64x4xf32, #mesh.shard<@g, [[], [0]]>>, tensor<6x1xi32>)
    -> tensor<6x4xf32, #mesh.shard<@g, [[], [0]]>>
  return %0 : tensor<6x4xf32, #mesh.shard<@g, [[], [0]]>>
}

// CHECK-LABEL: func.func @scatter
// CHECK-SAME: %[[INTO:.*]]: tensor<16x4xf32> {{.*}}, %[[IDS:.*]]: tensor<6x1xui8>
// CHECK: %[[WIDE:.*]] = stablehlo.convert %[[IDS]] : (tensor<6x1xui8>) -> tensor<6x1xi64>
// CHECK: %[[BEGINS:.*]] = arith.constant dense<[0, 16, 32, 48]> : tensor<4xi64>
// CHECK: %[[BEGIN:.*]] = shard.all_slice %[[BEGINS]] on @g grid_axes = [1] slice_axis = 0
// CHECK: %[[OFF:.*]] = stablehlo.broadcast_in_dim %[[BEGIN]], dims = [1]
// CHECK: %[[HERE:.*]] = stablehlo.subtract %[[WIDE]], %[[OFF]]
// CHECK: "stablehlo.scatter"(%[[INTO]], %[[HERE]], %{{.*}})
func.func @scatter(%into: tensor<64x4xf32, #mesh.shard<@g, [[1]]>>, %ids: tensor<6x1xui8>,
                   %rows: tensor<6x4xf32>) -> tensor<64x4xf32, #mesh.shard<@g, [[1]]>>
    attributes {mesh.form = "distributed"} {
  %0 = "stablehlo.scatter"(%into, %ids, %rows) <{scatter_dimension_numbers = #stablehlo.scatter<
      update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0],
      index_vector_dim = 1>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %s = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }) : (tensor<64x4xf32, #mesh.shard<@g, [[1]]>>, tensor<6x1xui8>, tensor<6x4xf32>)
    -> tensor<64x4xf32, #mesh.shard<@g, [[1]]>>
  return %0 : tensor<64x4xf32, #mesh.shard<@g, [[1]]>>
}
