// A part that is put into zeros, all of which is added, is added into its place.
//
// RUN: shard-opt %s --sum-in-place | filecheck %s
// RUN: shard-run %s --check

"mesh.cluster"() {sym_name = "g", rank = 1 : i64, dim_sizes = [2]} : () -> ()

// CHECK-LABEL: func.func @main
// CHECK-NOT: call @put
// CHECK: %[[BEFORE:.*]] = stablehlo.dynamic_slice %arg0, %arg2, %{{.*}}, sizes = [1, 6]
// CHECK: %[[SUM:.*]] = stablehlo.add %[[BEFORE]], %arg1
// CHECK: stablehlo.dynamic_update_slice %arg0, %[[SUM]], %arg2
func.func @main(%sum: tensor<4x6xf32> {mesh.sharding = #mesh.shard<@g, [[], [0]]>}, %part: tensor<1x6xf32>, %at: tensor<i32>) -> tensor<4x6xf32> {
  %0 = call @put(%part, %at) : (tensor<1x6xf32>, tensor<i32>) -> tensor<4x6xf32>
  %1 = stablehlo.add %0, %sum : tensor<4x6xf32>
  return %1 : tensor<4x6xf32>
}

func.func private @put(%part: tensor<1x6xf32>, %at: tensor<i32>) -> tensor<4x6xf32> {
  %c = stablehlo.constant dense<0.0> : tensor<f32>
  %zeros = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<f32>) -> tensor<4x6xf32>
  %first = stablehlo.constant dense<0> : tensor<i32>
  %0 = stablehlo.dynamic_update_slice %zeros, %part, %at, %first : (tensor<4x6xf32>, tensor<1x6xf32>, tensor<i32>, tensor<i32>) -> tensor<4x6xf32>
  return %0 : tensor<4x6xf32>
}

// As vmap writes it: batches are first, and the sum has them in another order.
// CHECK-LABEL: func.func @transposed
// CHECK: %[[PARTS:.*]] = stablehlo.transpose %arg2, dims = [0, 2, 1]
// CHECK: "stablehlo.scatter"(%arg0, %arg1, %[[PARTS]]) <{{.*}}update_window_dims = [1, 2], inserted_window_dims = [0], input_batching_dims = [2], scatter_indices_batching_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>, unique_indices = true
// CHECK: return
func.func @transposed(%sum: tensor<5x4x2x3xf32> {mesh.sharding = #mesh.shard<@g, [[], [], [0]]>}, %at: tensor<2x1xi32>, %parts: tensor<2x3x4xf32>) -> tensor<5x4x2x3xf32> {
  %zeros = stablehlo.constant dense<0.0> : tensor<2x5x3x4xf32>
  %0 = "stablehlo.scatter"(%zeros, %at, %parts) <{indices_are_sorted = true, scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1, 2], inserted_window_dims = [1], input_batching_dims = [0], scatter_indices_batching_dims = [0], scatter_dims_to_operand_dims = [1], index_vector_dim = 1>, unique_indices = true}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %s = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }) : (tensor<2x5x3x4xf32>, tensor<2x1xi32>, tensor<2x3x4xf32>) -> tensor<2x5x3x4xf32>
  %1 = stablehlo.transpose %0, dims = [1, 3, 0, 2] : (tensor<2x5x3x4xf32>) -> tensor<5x4x2x3xf32>
  %2 = stablehlo.add %sum, %1 : tensor<5x4x2x3xf32>
  return %2 : tensor<5x4x2x3xf32>
}

// Updates of one element are summed first, which rounds in another order; zeros that are read again stay.
// CHECK-LABEL: func.func @left_alone
// CHECK: %[[PUT:.*]] = "stablehlo.scatter"
// CHECK: stablehlo.add %arg0, %[[PUT]]
// CHECK: %[[WHOLE:.*]] = stablehlo.dynamic_update_slice
// CHECK: stablehlo.add %{{.*}}, %[[WHOLE]]
func.func @left_alone(%sum: tensor<5xf32> {mesh.sharding = #mesh.shard<@g, [[]]>}, %at: tensor<2x1xi32>, %parts: tensor<2xf32>, %part: tensor<1xf32>, %i: tensor<i32>) -> (tensor<5xf32>, tensor<5xf32>) {
  %zeros = stablehlo.constant dense<0.0> : tensor<5xf32>
  %0 = "stablehlo.scatter"(%zeros, %at, %parts) <{indices_are_sorted = false, scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>, unique_indices = false}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %s = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }) : (tensor<5xf32>, tensor<2x1xi32>, tensor<2xf32>) -> tensor<5xf32>
  %1 = stablehlo.add %sum, %0 : tensor<5xf32>
  %2 = stablehlo.dynamic_update_slice %zeros, %part, %i : (tensor<5xf32>, tensor<1xf32>, tensor<i32>) -> tensor<5xf32>
  %3 = stablehlo.add %1, %2 : tensor<5xf32>
  return %3, %2 : tensor<5xf32>, tensor<5xf32>
}
