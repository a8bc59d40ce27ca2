// RUN: shard-opt %s --split-input-file --verify-diagnostics

func.func @past_the_end(%x: tensor<8x6xf32>) {
  // expected-error@+1 {{has 5 elements from 2 on in dimension 1, which has 6}}
  %0 = "mesh.transfer"(%x) {cluster = @g, offsets = [4, 2]} : (tensor<8x6xf32>) -> tensor<2x5xf32>
  return
}

// -----

func.func @another_rank(%x: tensor<8x6xf32>) {
  // expected-error@+1 {{has 1 offsets for a tensor<5xf32> in a tensor<8x6xf32>}}
  %0 = "mesh.transfer"(%x) {cluster = @g, offsets = [2]} : (tensor<8x6xf32>) -> tensor<5xf32>
  return
}

// -----

func.func @into_another_type(%x: tensor<8x6xf32>, %y: tensor<4x6xf32>) {
  // expected-error@+1 {{puts a tensor into a tensor<4x6xf32>, and makes a tensor<8x6xf32>}}
  %0 = "mesh.transfer"(%y, %y) {cluster = @g, offsets = [0, 0]} : (tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<8x6xf32>
  return
}

// -----

func.func @another_element(%x: tensor<8xf32>) {
  // expected-error@+1 {{has different types of elements in its operands and its result}}
  %0 = "mesh.transfer"(%x) {cluster = @g, offsets = [0]} : (tensor<8xf32>) -> tensor<4xf64>
  return
}

// -----

func.func @unknown_size(%x: tensor<?xf32>) {
  // expected-error@+1 {{takes and gives ranked tensors of known sizes, found tensor<?xf32>, tensor<4xf32>}}
  %0 = "mesh.transfer"(%x) {cluster = @g, offsets = [0]} : (tensor<?xf32>) -> tensor<4xf32>
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 1 : i64, dim_sizes = [2]} : () -> ()
func.func @no_stage(%x: tensor<8xf32>) {
  // expected-error@+1 {{is between stages, and there is no part of @g(2): take a slice}}
  %0 = "mesh.transfer"(%x) {cluster = @g, offsets = [0]} : (tensor<8xf32>) -> tensor<4xf32>
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 1 : i64, dim_sizes = [2]} : () -> ()
func.func @another_stage(%x: tensor<8xf32>) {
  // expected-error@+1 {{grid @second is not declared}}
  %0 = "mesh.transfer"(%x) {cluster = @second, offsets = [0]} : (tensor<8xf32>) -> tensor<4xf32>
  return
}
