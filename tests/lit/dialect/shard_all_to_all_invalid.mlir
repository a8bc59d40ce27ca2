// RUN: shard-opt %s --split-input-file --verify-diagnostics

func.func @unknown_grid(%x: tensor<4x8xf32>) {
  // expected-error@+1 {{Undefined required grid symbol "g"}}
  %0 = shard.all_to_all %x on @g grid_axes = [0] split_axis = 1 concat_axis = 0 : tensor<4x8xf32> -> tensor<8x4xf32>
  return
}

// -----

shard.grid @g(shape = 2x2)
func.func @axis_out_of_range(%x: tensor<4x8xf32>) {
  // expected-error@+1 {{0-based grid axis index 2 is out of bounds. The referenced grid "g" is of rank 2}}
  %0 = shard.all_to_all %x on @g grid_axes = [2] split_axis = 1 concat_axis = 0 : tensor<4x8xf32> -> tensor<8x4xf32>
  return
}

// -----

shard.grid @g(shape = 2x2)
func.func @axis_negative(%x: tensor<4x8xf32>) {
  // expected-error@+1 {{0-based grid axis index -1 is out of bounds}}
  %0 = shard.all_to_all %x on @g grid_axes = [-1] split_axis = 1 concat_axis = 0 : tensor<4x8xf32> -> tensor<8x4xf32>
  return
}

// -----

shard.grid @g(shape = 2x2)
func.func @axis_twice(%x: tensor<4x8xf32>) {
  // expected-error@+1 {{Grid axes contains duplicate elements}}
  %0 = shard.all_to_all %x on @g grid_axes = [0, 0] split_axis = 1 concat_axis = 0 : tensor<4x8xf32> -> tensor<8x4xf32>
  return
}

// -----

shard.grid @g(shape = 2x2)
func.func @indivisible(%x: tensor<4x3xf32>) {
  // expected-error@+1 {{'shard.all_to_all' op dimension 1 of size 3 does not divide by 2 devices}}
  %0 = shard.all_to_all %x on @g grid_axes = [0] split_axis = 1 concat_axis = 0 : tensor<4x3xf32> -> tensor<8x?xf32>
  return
}

// -----

shard.grid @g(shape = 2x2)
func.func @indivisible_and_put_back(%x: tensor<6x8xf32>) {
  // expected-error@+1 {{'shard.all_to_all' op dimension 0 of size 6 does not divide by 4 devices}}
  %0 = shard.all_to_all %x on @g grid_axes = [0, 1] split_axis = 0 concat_axis = 0 : tensor<6x8xf32> -> tensor<6x8xf32>
  return
}

// -----

shard.grid @g(shape = 2x2)
func.func @split_size(%x: tensor<4x8xf32>) {
  // expected-error@+1 {{Dimension size mismatch for result axis 1. Expected 4, but got 8}}
  %0 = shard.all_to_all %x on @g grid_axes = [0] split_axis = 1 concat_axis = 0 : tensor<4x8xf32> -> tensor<8x8xf32>
  return
}

// -----

shard.grid @g(shape = 2x2)
func.func @concatenated_size(%x: tensor<4x8xf32>) {
  // expected-error@+1 {{Dimension size mismatch for result axis 0. Expected 8, but got 4}}
  %0 = shard.all_to_all %x on @g grid_axes = [0] split_axis = 1 concat_axis = 0 : tensor<4x8xf32> -> tensor<4x4xf32>
  return
}
