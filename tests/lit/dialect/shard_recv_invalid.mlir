// RUN: shard-opt %s --split-input-file --verify-diagnostics

func.func @unknown_grid(%x: tensor<4x8xf32>) {
  // expected-error@+1 {{Undefined required grid symbol "g"}}
  %0 = shard.recv %x on @g grid_axes = [0] source = [0] : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return
}

// -----

shard.grid @g(shape = 2x2)
func.func @axis_out_of_range(%x: tensor<4x8xf32>) {
  // expected-error@+1 {{0-based grid axis index 2 is out of bounds. The referenced grid "g" is of rank 2}}
  %0 = shard.recv %x on @g grid_axes = [2] source = [0] : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return
}

// -----

shard.grid @g(shape = 2x2)
func.func @axis_negative(%x: tensor<4x8xf32>) {
  // expected-error@+1 {{0-based grid axis index -1 is out of bounds}}
  %0 = shard.recv %x on @g grid_axes = [-1] source = [0] : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return
}

// -----

shard.grid @g(shape = 2x3)
func.func @source_negative(%x: tensor<4x8xf32>) {
  // expected-error@+1 {{'shard.recv' op has coordinate -1 in source = [-1, 0] on axis 0 of grid @g, of size 2}}
  %0 = shard.recv %x on @g grid_axes = [0, 1] source = [-1, 0] : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return
}

// -----

shard.grid @g(shape = 2x3)
func.func @source_past_the_grid(%x: tensor<4x8xf32>) {
  // expected-error@+1 {{Out of bounds coordinate 1 for in-group device "source". Got 3, but expected value in the range [0, 2]}}
  %0 = shard.recv %x on @g grid_axes = [0, 1] source = [1, 3] : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return
}

// -----

shard.grid @g(shape = 2x3)
func.func @source_of_another_rank(%x: tensor<4x8xf32>) {
  // expected-error@+1 {{In-group device "source" has unexpected multi-index size 1. Expected 2}}
  %0 = shard.recv %x on @g grid_axes = [0, 1] source = [1] : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return
}

// -----

shard.grid @g(shape = 2x3)
func.func @source_unknown_without_operand(%x: tensor<4x8xf32>) {
  // expected-error@+1 {{'shard.recv' op has 0 operands for the 1 unknown numbers in source = [0, ?]}}
  %0 = shard.recv %x on @g grid_axes = [0, 1] source = [0, -9223372036854775808] : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return
}

// -----

shard.grid @g(shape = 2x2)
func.func @operand_of_no_source(%x: tensor<4x8xf32>, %i: index) {
  // expected-error@+1 {{'shard.recv' op has 1 operands for the 0 unknown numbers in source = []}}
  %0 = "shard.recv"(%x, %i) <{grid = @g, grid_axes = array<i16: 0>}> : (tensor<4x8xf32>, index) -> tensor<4x8xf32>
  return
}

// -----

shard.grid @g(shape = 2x2)
func.func @element_type(%x: tensor<4x8xf32>) {
  // expected-error@+1 {{failed to verify that all of {input, result} have same element type}}
  %0 = shard.recv %x on @g grid_axes = [0, 1] source = [0, 0] : (tensor<4x8xf32>) -> tensor<4x8xf64>
  return
}
