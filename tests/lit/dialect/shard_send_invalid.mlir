// RUN: shard-opt %s --split-input-file --verify-diagnostics

func.func @unknown_grid(%x: tensor<4x8xf32>) {
  // expected-error@+1 {{Undefined required grid symbol "g"}}
  %0 = shard.send %x on @g grid_axes = [0] destination = [0] : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return
}

// -----

shard.grid @g(shape = 2x2)
func.func @axis_out_of_range(%x: tensor<4x8xf32>) {
  // expected-error@+1 {{0-based grid axis index 2 is out of bounds. The referenced grid "g" is of rank 2}}
  %0 = shard.send %x on @g grid_axes = [2] destination = [0] : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return
}

// -----

shard.grid @g(shape = 2x2)
func.func @axis_negative(%x: tensor<4x8xf32>) {
  // expected-error@+1 {{0-based grid axis index -1 is out of bounds}}
  %0 = shard.send %x on @g grid_axes = [-1] destination = [0] : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return
}

// -----

shard.grid @g(shape = 2x3)
func.func @destination_negative(%x: tensor<4x8xf32>) {
  // expected-error@+1 {{'shard.send' op has coordinate -1 in destination = [-1, 0] on axis 0 of grid @g, of size 2}}
  %0 = shard.send %x on @g grid_axes = [0, 1] destination = [-1, 0] : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return
}

// -----

shard.grid @g(shape = 2x3)
func.func @destination_past_the_grid(%x: tensor<4x8xf32>) {
  // expected-error@+1 {{Out of bounds coordinate 1 for in-group device "destination". Got 3, but expected value in the range [0, 2]}}
  %0 = shard.send %x on @g grid_axes = [0, 1] destination = [1, 3] : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return
}

// -----

shard.grid @g(shape = 2x3)
func.func @destination_of_another_rank(%x: tensor<4x8xf32>) {
  // expected-error@+1 {{In-group device "destination" has unexpected multi-index size 1. Expected 2}}
  %0 = shard.send %x on @g grid_axes = [0, 1] destination = [1] : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return
}

// -----

shard.grid @g(shape = 2x3)
func.func @destination_unknown_without_operand(%x: tensor<4x8xf32>) {
  // expected-error@+1 {{'shard.send' op has 0 operands for the 1 unknown numbers in destination = [0, ?]}}
  %0 = shard.send %x on @g grid_axes = [0, 1] destination = [0, -9223372036854775808] : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return
}

// -----

shard.grid @g(shape = 2x2)
func.func @shape(%x: tensor<4x8xf32>) {
  // expected-error@+1 {{failed to verify that all of {input, result} have same shape}}
  %0 = shard.send %x on @g grid_axes = [0, 1] destination = [0, 0] : (tensor<4x8xf32>) -> tensor<4x4xf32>
  return
}
