// RUN: shard-opt %s --split-input-file --verify-diagnostics

func.func @another_dimension(%x: tensor<8x6xf32>) {
  // expected-error@+1 {{rolls dimension 2 of a tensor of rank 2}}
  %0 = "mesh.roll"(%x) {tensor_axis = 2 : i64, by = 1 : i64} : (tensor<8x6xf32>) -> tensor<8x6xf32>
  return
}

// -----

func.func @unranked(%x: tensor<*xf32>) {
  // expected-error@+1 {{is on a tensor<*xf32>: expected a ranked tensor}}
  %0 = "mesh.roll"(%x) {tensor_axis = 0 : i64, by = 1 : i64} : (tensor<*xf32>) -> tensor<*xf32>
  return
}
