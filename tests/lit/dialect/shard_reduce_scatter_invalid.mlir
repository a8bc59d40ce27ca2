// RUN: shard-opt %s --split-input-file --verify-diagnostics

func.func @unknown_grid(%x: tensor<4x8xf32>) {
  // expected-error@+1 {{Undefined required grid symbol "g"}}
  %0 = shard.reduce_scatter %x on @g grid_axes = [0] scatter_dim = 0 : tensor<4x8xf32> -> tensor<2x8xf32>
  return
}

// -----

shard.grid @g(shape = 2x2)
func.func @axis_out_of_range(%x: tensor<4x8xf32>) {
  // expected-error@+1 {{0-based grid axis index 2 is out of bounds. The referenced grid "g" is of rank 2}}
  %0 = shard.reduce_scatter %x on @g grid_axes = [2] scatter_dim = 0 : tensor<4x8xf32> -> tensor<2x8xf32>
  return
}

// -----

shard.grid @g(shape = 2x2)
func.func @axis_negative(%x: tensor<4x8xf32>) {
  // expected-error@+1 {{0-based grid axis index -1 is out of bounds}}
  %0 = shard.reduce_scatter %x on @g grid_axes = [-1] scatter_dim = 0 : tensor<4x8xf32> -> tensor<2x8xf32>
  return
}

// -----

shard.grid @g(shape = 2x2)
func.func @axis_twice(%x: tensor<4x8xf32>) {
  // expected-error@+1 {{Grid axes contains duplicate elements}}
  %0 = shard.reduce_scatter %x on @g grid_axes = [0, 0] scatter_dim = 0 : tensor<4x8xf32> -> tensor<2x8xf32>
  return
}

// -----

shard.grid @g(shape = 2x2)
func.func @indivisible(%x: tensor<5xf32>) {
  // expected-error@+1 {{Operand dimension size 5 is not divisible by collective device group size 2 for tensor axis 0}}
  %0 = shard.reduce_scatter %x on @g grid_axes = [0] scatter_dim = 0 : tensor<5xf32> -> tensor<?xf32>
  return
}

// -----

shard.grid @g(shape = 2x2)
func.func @scattered_size(%x: tensor<4x8xf32>) {
  // expected-error@+1 {{Dimension size mismatch for result axis 1. Expected 4, but got 8}}
  %0 = shard.reduce_scatter %x on @g grid_axes = [0] scatter_dim = 1 : tensor<4x8xf32> -> tensor<4x8xf32>
  return
}

// -----

shard.grid @g(shape = 2x2)
func.func @element_type(%x: tensor<4x8xf32>) {
  // expected-error@+1 {{'shard.reduce_scatter' op reduces f32 to i8: expected the same type, or a wider one of its kind}}
  %0 = shard.reduce_scatter %x on @g grid_axes = [0] scatter_dim = 1 : tensor<4x8xf32> -> tensor<4x4xi8>
  return
}

// -----

shard.grid @g(shape = 2x2)
func.func @bits_of_floats(%x: tensor<4x8xf32>) {
  // expected-error@+1 {{'shard.reduce_scatter' op has reduction bitwise_or of f32: expected integers}}
  %0 = shard.reduce_scatter %x on @g grid_axes = [0] reduction = bitwise_or scatter_dim = 1 : tensor<4x8xf32> -> tensor<4x4xf32>
  return
}
