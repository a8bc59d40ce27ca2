// RUN: shard-opt %s --split-input-file --verify-diagnostics

func.func @unknown_grid(%x: tensor<4x8xf32>) {
  // expected-error@+1 {{Undefined required grid symbol "g"}}
  %0 = shard.all_slice %x on @g grid_axes = [0] slice_axis = 1 : tensor<4x8xf32> -> tensor<4x4xf32>
  return
}

// -----

shard.grid @g(shape = 2x2)
func.func @axis_out_of_range(%x: tensor<4x8xf32>) {
  // expected-error@+1 {{0-based grid axis index 2 is out of bounds. The referenced grid "g" is of rank 2}}
  %0 = shard.all_slice %x on @g grid_axes = [2] slice_axis = 1 : tensor<4x8xf32> -> tensor<4x4xf32>
  return
}

// -----

shard.grid @g(shape = 2x2)
func.func @axis_negative(%x: tensor<4x8xf32>) {
  // expected-error@+1 {{0-based grid axis index -1 is out of bounds}}
  %0 = shard.all_slice %x on @g grid_axes = [-1] slice_axis = 1 : tensor<4x8xf32> -> tensor<4x4xf32>
  return
}

// -----

shard.grid @g(shape = 2x2)
func.func @axis_twice(%x: tensor<4x8xf32>) {
  // expected-error@+1 {{Grid axes contains duplicate elements}}
  %0 = shard.all_slice %x on @g grid_axes = [0, 0] slice_axis = 1 : tensor<4x8xf32> -> tensor<4x4xf32>
  return
}

// -----

shard.grid @g(shape = 2x2)
func.func @indivisible(%x: tensor<5x8xf32>) {
  // expected-error@+1 {{Operand dimension size 5 is not divisible by collective device group size 2 for tensor axis 0}}
  %0 = shard.all_slice %x on @g grid_axes = [0] slice_axis = 0 : tensor<5x8xf32> -> tensor<?x8xf32>
  return
}

// -----

shard.grid @g(shape = 2x2)
func.func @sliced_size(%x: tensor<4x8xf32>) {
  // expected-error@+1 {{Dimension size mismatch for result axis 1. Expected 4, but got 2}}
  %0 = shard.all_slice %x on @g grid_axes = [0] slice_axis = 1 : tensor<4x8xf32> -> tensor<4x2xf32>
  return
}

// -----

shard.grid @g(shape = 2x2)
func.func @other_size(%x: tensor<4x8xf32>) {
  // expected-error@+1 {{Dimension size mismatch for result axis 0. Expected 4, but got 2}}
  %0 = shard.all_slice %x on @g grid_axes = [0] slice_axis = 1 : tensor<4x8xf32> -> tensor<2x4xf32>
  return
}
