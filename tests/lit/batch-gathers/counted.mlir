// A component of the indices that counts along one of their dimensions is a batching dimension, and
// one that is zero is none. If no component is left, a gather is a broadcast, a scatter elementwise.
//
// RUN: shard-opt %s --batch-gathers | filecheck %s

"mesh.cluster"() {sym_name = "g", rank = 1 : i64, dim_sizes = [2]} : () -> ()

// CHECK-LABEL: func.func @gathered
// CHECK: "stablehlo.gather"(%arg0, %arg1) <{dimension_numbers = #stablehlo.gather<offset_dims = [2], collapsed_slice_dims = [1], operand_batching_dims = [0], start_indices_batching_dims = [1], start_index_map = [1]>{{.*}} {mesh.shardings = [#mesh.shard<@g, {{\[\[}}0]]>]}
func.func @gathered(%x: tensor<8x4x2xf32>, %ids: tensor<1x8x5xi32>) -> tensor<8x5x2xf32> {
  %0 = stablehlo.iota dim = 1 : tensor<1x8x5xi32>
  %1 = stablehlo.concatenate %0, %ids, dim = 0 : (tensor<1x8x5xi32>, tensor<1x8x5xi32>) -> tensor<2x8x5xi32>
  %2 = "stablehlo.gather"(%x, %1) <{dimension_numbers = #stablehlo.gather<offset_dims = [2], collapsed_slice_dims = [0, 1], start_index_map = [0, 1]>, indices_are_sorted = false, slice_sizes = array<i64: 1, 1, 2>}> {mesh.shardings = [#mesh.shard<@g, [[0]]>]} : (tensor<8x4x2xf32>, tensor<2x8x5xi32>) -> tensor<8x5x2xf32>
  return %2 : tensor<8x5x2xf32>
}

// JAX adds the size to indices below zero. The slices keep a dimension of size 1.
// CHECK-LABEL: func.func @as_jax_writes_it
// CHECK: %[[BATCHED:.*]] = "stablehlo.gather"(%arg0, %arg1) <{dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [1], operand_batching_dims = [0], start_indices_batching_dims = [0], start_index_map = [1], index_vector_dim = 1>
// CHECK: stablehlo.reshape %[[BATCHED]] : (tensor<8xf32>) -> tensor<8x1xf32>
func.func @as_jax_writes_it(%x: tensor<8x4xf32>, %ids: tensor<8x1xi32>) -> tensor<8x1xf32> {
  %c0 = stablehlo.constant dense<0> : tensor<8xi32>
  %c8 = stablehlo.constant dense<8> : tensor<8xi32>
  %0 = stablehlo.iota dim = 0 : tensor<8xi32>
  %1 = stablehlo.compare LT, %0, %c0 : (tensor<8xi32>, tensor<8xi32>) -> tensor<8xi1>
  %2 = stablehlo.add %0, %c8 : tensor<8xi32>
  %3 = stablehlo.select %1, %2, %0 : tensor<8xi1>, tensor<8xi32>
  %4 = stablehlo.broadcast_in_dim %3, dims = [0] : (tensor<8xi32>) -> tensor<8x1xi32>
  %5 = stablehlo.concatenate %4, %ids, dim = 1 : (tensor<8x1xi32>, tensor<8x1xi32>) -> tensor<8x2xi32>
  %6 = "stablehlo.gather"(%x, %5) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [1], start_index_map = [0, 1], index_vector_dim = 1>, indices_are_sorted = false, slice_sizes = array<i64: 1, 1>}> : (tensor<8x4xf32>, tensor<8x2xi32>) -> tensor<8x1xf32>
  return %6 : tensor<8x1xf32>
}

// CHECK-LABEL: func.func @broadcast
// CHECK-NOT: gather
// CHECK: %[[ROWS:.*]] = stablehlo.transpose %{{.*}}, dims = [1, 0] : (tensor<8x4xf32>) -> tensor<4x8xf32>
// CHECK: stablehlo.broadcast_in_dim %[[ROWS]], dims = [0, 1] : (tensor<4x8xf32>) -> tensor<4x8x3xf32>
func.func @broadcast(%x: tensor<8x4xf32>) -> tensor<4x8x3xf32> {
  %0 = stablehlo.iota dim = 1 : tensor<1x8x3xi32>
  %1 = "stablehlo.gather"(%x, %0) <{dimension_numbers = #stablehlo.gather<offset_dims = [0], collapsed_slice_dims = [0], start_index_map = [0]>, indices_are_sorted = true, slice_sizes = array<i64: 1, 4>}> : (tensor<8x4xf32>, tensor<1x8x3xi32>) -> tensor<4x8x3xf32>
  return %1 : tensor<4x8x3xf32>
}

// CHECK-LABEL: func.func @added
// CHECK-NOT: scatter
// CHECK: stablehlo.add %arg0, %arg1 : tensor<8x4xf32>
func.func @added(%x: tensor<8x4xf32>, %u: tensor<8x4xf32>) -> tensor<8x4xf32> {
  %0 = stablehlo.iota dim = 0 : tensor<8x1xi32>
  %1 = "stablehlo.scatter"(%x, %0, %u) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>, indices_are_sorted = true, unique_indices = true}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %2 = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %2 : tensor<f32>
  }) : (tensor<8x4xf32>, tensor<8x1xi32>, tensor<8x4xf32>) -> tensor<8x4xf32>
  return %1 : tensor<8x4xf32>
}

// CHECK-LABEL: func.func @scattered
// CHECK: input_batching_dims = [0], scatter_indices_batching_dims = [0], scatter_dims_to_operand_dims = [1], index_vector_dim = 1
func.func @scattered(%x: tensor<2x8x4xf32>, %ids: tensor<2x1xi32>, %u: tensor<2x1x4xf32>) -> tensor<2x8x4xf32> {
  %0 = stablehlo.iota dim = 0 : tensor<2x1xi32>
  %c = stablehlo.constant dense<0> : tensor<2x1xi32>
  %1 = stablehlo.concatenate %0, %ids, %c, dim = 1 : (tensor<2x1xi32>, tensor<2x1xi32>, tensor<2x1xi32>) -> tensor<2x3xi32>
  %2 = "stablehlo.scatter"(%x, %1, %u) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1, 2], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0, 1, 2], index_vector_dim = 1>, indices_are_sorted = true, unique_indices = true}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    stablehlo.return %b : tensor<f32>
  }) : (tensor<2x8x4xf32>, tensor<2x3xi32>, tensor<2x1x4xf32>) -> tensor<2x8x4xf32>
  return %2 : tensor<2x8x4xf32>
}
