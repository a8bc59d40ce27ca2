// RUN: shard-opt %s --split-input-file --verify-diagnostics

func.func @unknown_grid(%x: tensor<4x8xf32>) {
  // expected-error@+1 {{Undefined required grid symbol "g"}}
  %0 = shard.shift %x on @g grid_axes = [0] shift_axis = 0 offset = 1 : tensor<4x8xf32> -> tensor<4x8xf32>
  return
}

// -----

shard.grid @g(shape = 2x2)
func.func @axis_out_of_range(%x: tensor<4x8xf32>) {
  // expected-error@+1 {{0-based grid axis index 2 is out of bounds. The referenced grid "g" is of rank 2}}
  %0 = shard.shift %x on @g grid_axes = [2] shift_axis = 0 offset = 1 : tensor<4x8xf32> -> tensor<4x8xf32>
  return
}

// -----

shard.grid @g(shape = 2x2)
func.func @axis_negative(%x: tensor<4x8xf32>) {
  // expected-error@+1 {{0-based grid axis index -1 is out of bounds}}
  %0 = shard.shift %x on @g grid_axes = [-1] shift_axis = 0 offset = 1 : tensor<4x8xf32> -> tensor<4x8xf32>
  return
}

// -----

shard.grid @g(shape = 2x2)
func.func @axis_twice(%x: tensor<4x8xf32>) {
  // expected-error@+1 {{Grid axes contains duplicate elements}}
  %0 = shard.shift %x on @g grid_axes = [0, 0] shift_axis = 0 offset = 1 : tensor<4x8xf32> -> tensor<4x8xf32>
  return
}

// -----

shard.grid @g(shape = 2x2)
func.func @shift_axis_of_another_group(%x: tensor<4x8xf32>) {
  // expected-error@+1 {{Invalid shift axis 1. It must be one of the grouping grid axes}}
  %0 = shard.shift %x on @g grid_axes = [0] shift_axis = 1 offset = 1 : tensor<4x8xf32> -> tensor<4x8xf32>
  return
}

// -----

shard.grid @g(shape = 2x2)
func.func @shift_axis_of_no_group(%x: tensor<4x8xf32>) {
  // expected-error@+1 {{Invalid shift axis 0. It must be one of the grouping grid axes}}
  %0 = shard.shift %x on @g shift_axis = 0 offset = 1 : tensor<4x8xf32> -> tensor<4x8xf32>
  return
}

// -----

shard.grid @g(shape = 2x2)
func.func @no_operand(%x: tensor<4x8xf32>) {
  // expected-error@+1 {{expected SSA operand}}
  %0 = shard.shift on @g grid_axes = [0] shift_axis = 0 offset = 1 : tensor<4x8xf32> -> tensor<4x8xf32>
  return
}

// -----

shard.grid @g(shape = 2x2)
func.func @shape(%x: tensor<4x8xf32>) {
  // expected-error@+1 {{requires the same shape for all operands and results}}
  %0 = shard.shift %x on @g grid_axes = [0] shift_axis = 0 offset = 1 : tensor<4x8xf32> -> tensor<4x4xf32>
  return
}
