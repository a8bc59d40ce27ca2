// RUN: shard-opt %s --split-input-file --verify-diagnostics

func.func @unknown_grid(%x: tensor<4x8xf32>) {
  // expected-error@+1 {{Undefined required grid symbol "g"}}
  %0 = shard.all_gather %x on @g grid_axes = [0] gather_axis = 1 : tensor<4x8xf32> -> tensor<4x16xf32>
  return
}

// -----

shard.grid @g(shape = 2x2)
func.func @axis_out_of_range(%x: tensor<4x8xf32>) {
  // expected-error@+1 {{0-based grid axis index 2 is out of bounds. The referenced grid "g" is of rank 2}}
  %0 = shard.all_gather %x on @g grid_axes = [2] gather_axis = 1 : tensor<4x8xf32> -> tensor<4x16xf32>
  return
}

// -----

shard.grid @g(shape = 2x2)
func.func @axis_negative(%x: tensor<4x8xf32>) {
  // expected-error@+1 {{0-based grid axis index -1 is out of bounds}}
  %0 = shard.all_gather %x on @g grid_axes = [-1] gather_axis = 1 : tensor<4x8xf32> -> tensor<4x16xf32>
  return
}

// -----

shard.grid @g(shape = 2x2)
func.func @axis_twice(%x: tensor<4x8xf32>) {
  // expected-error@+1 {{Grid axes contains duplicate elements}}
  %0 = shard.all_gather %x on @g grid_axes = [0, 0] gather_axis = 1 : tensor<4x8xf32> -> tensor<4x16xf32>
  return
}

// -----

shard.grid @g(shape = 2x2)
func.func @gathered_size(%x: tensor<4x8xf32>) {
  // expected-error@+1 {{Dimension size mismatch for result axis 1. Expected 16, but got 24}}
  %0 = shard.all_gather %x on @g grid_axes = [0] gather_axis = 1 : tensor<4x8xf32> -> tensor<4x24xf32>
  return
}

// -----

shard.grid @g(shape = 2x2)
func.func @other_size(%x: tensor<4x8xf32>) {
  // expected-error@+1 {{Dimension size mismatch for result axis 0. Expected 4, but got 5}}
  %0 = shard.all_gather %x on @g grid_axes = [0] gather_axis = 1 : tensor<4x8xf32> -> tensor<5x16xf32>
  return
}

// -----

shard.grid @g(shape = ?)
func.func @size_of_an_unknown_group(%x: tensor<4x8xf32>) {
  // expected-error@+1 {{Expected dynamic, but got 16}}
  %0 = shard.all_gather %x on @g grid_axes = [0] gather_axis = 1 : tensor<4x8xf32> -> tensor<4x16xf32>
  return
}

// -----

shard.grid @g(shape = 2x2)
func.func @gather_axis(%x: tensor<4x8xf32>) {
  // expected-error@+1 {{Gather axis 2 is out of bounds [0, 2)}}
  %0 = shard.all_gather %x on @g grid_axes = [0] gather_axis = 2 : tensor<4x8xf32> -> tensor<4x8xf32>
  return
}

// -----

shard.grid @g(shape = 2x2)
func.func @gather_axis_negative(%x: tensor<4x8xf32>) {
  // expected-error@+1 {{Gather axis -1 is out of bounds [0, 2)}}
  %0 = shard.all_gather %x on @g grid_axes = [0] gather_axis = -1 : tensor<4x8xf32> -> tensor<4x8xf32>
  return
}

// -----

shard.grid @g(shape = 2x2)
func.func @element_type(%x: tensor<4x8xf32>) {
  // expected-error@+1 {{requires the same element type for all operands and results}}
  %0 = shard.all_gather %x on @g grid_axes = [0] gather_axis = 1 : tensor<4x8xf32> -> tensor<4x16xf64>
  return
}

// -----

shard.grid @g(shape = 2x2)
func.func @unranked(%x: tensor<*xf32>) {
  // expected-error@+1 {{operand #0 must be}}
  %0 = shard.all_gather %x on @g grid_axes = [0] gather_axis = 0 : tensor<*xf32> -> tensor<*xf32>
  return
}
