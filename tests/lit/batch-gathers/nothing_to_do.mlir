// Indices that are given, that count to less than the dimension, and of slices of two elements stay.
//
// RUN: shard-opt %s -o %t.before
// RUN: shard-opt %s --batch-gathers -o %t.after
// RUN: diff %t.before %t.after

"mesh.cluster"() {sym_name = "g", rank = 1 : i64, dim_sizes = [2]} : () -> ()

func.func @given(%x: tensor<8x4xf32>, %ids: tensor<8x1xi32>) -> tensor<8x4xf32> {
  %0 = "stablehlo.gather"(%x, %ids) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, indices_are_sorted = false, slice_sizes = array<i64: 1, 4>}> : (tensor<8x4xf32>, tensor<8x1xi32>) -> tensor<8x4xf32>
  return %0 : tensor<8x4xf32>
}

func.func @counts_to_less(%x: tensor<8x4xf32>) -> tensor<4x4xf32> {
  %0 = stablehlo.iota dim = 0 : tensor<4x1xi32>
  %1 = "stablehlo.gather"(%x, %0) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, indices_are_sorted = false, slice_sizes = array<i64: 1, 4>}> : (tensor<8x4xf32>, tensor<4x1xi32>) -> tensor<4x4xf32>
  return %1 : tensor<4x4xf32>
}

func.func @of_two_elements(%x: tensor<8x4xf32>) -> tensor<8x2x4xf32> {
  %0 = stablehlo.iota dim = 0 : tensor<8x1xi32>
  %1 = "stablehlo.gather"(%x, %0) <{dimension_numbers = #stablehlo.gather<offset_dims = [1, 2], start_index_map = [0], index_vector_dim = 1>, indices_are_sorted = false, slice_sizes = array<i64: 2, 4>}> : (tensor<8x4xf32>, tensor<8x1xi32>) -> tensor<8x2x4xf32>
  return %1 : tensor<8x2x4xf32>
}
