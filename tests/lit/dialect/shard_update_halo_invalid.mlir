// RUN: shard-opt %s --split-input-file --verify-diagnostics

func.func @unknown_grid(%x: tensor<8xf32>) {
  // expected-error@+1 {{Undefined required grid symbol "g"}}
  %0 = shard.update_halo %x on @g split_axes = [[0]] halo_sizes = [1, 1] : tensor<8xf32>
  return
}

// -----

shard.grid @g(shape = 2x2)
func.func @axis_out_of_range(%x: tensor<8xf32>) {
  // expected-error@+1 {{'shard.update_halo' op grid axis 2 in split axes [[2]] is not in grid @g of rank 2}}
  %0 = shard.update_halo %x on @g split_axes = [[2]] halo_sizes = [1, 1] : tensor<8xf32>
  return
}

// -----

shard.grid @g(shape = 2x2)
func.func @axis_negative(%x: memref<8xf32>) {
  // expected-error@+1 {{'shard.update_halo' op grid axis -1 in split axes [[-1]] is not in grid @g of rank 2}}
  %0 = shard.update_halo %x on @g split_axes = [[-1]] halo_sizes = [1, 1] : memref<8xf32>
  return
}

// -----

shard.grid @g(shape = 2x2)
func.func @axis_twice(%x: tensor<8x8xf32>) {
  // expected-error@+1 {{'shard.update_halo' op grid axis 0 is used twice in split axes [[0], [0]]}}
  %0 = shard.update_halo %x on @g split_axes = [[0], [0]] halo_sizes = [1, 1, 1, 1] : tensor<8x8xf32>
  return
}

// -----

shard.grid @g(shape = 2x2)
func.func @more_lists_than_dimensions(%x: tensor<8xf32>) {
  // expected-error@+1 {{'shard.update_halo' op has split axes [[0], []] for 2 dimensions, but its operand has 1}}
  %0 = shard.update_halo %x on @g split_axes = [[0], []] halo_sizes = [1, 1] : tensor<8xf32>
  return
}

// -----

shard.grid @g(shape = 2x2)
func.func @too_few(%x: tensor<8x8xf32>) {
  // expected-error@+1 {{'shard.update_halo' op has halo_sizes [1, 1] for 2 split dimensions: expected 4, two for each}}
  %0 = shard.update_halo %x on @g split_axes = [[0], [1]] halo_sizes = [1, 1] : tensor<8x8xf32>
  return
}

// -----

shard.grid @g(shape = 2x2)
func.func @none(%x: tensor<8xf32>) {
  // expected-error@+1 {{'shard.update_halo' op has halo_sizes [] for 1 split dimensions: expected 2, two for each}}
  %0 = shard.update_halo %x on @g split_axes = [[0]] : tensor<8xf32>
  return
}

// -----

shard.grid @g(shape = 2x2)
func.func @negative(%x: tensor<8xf32>, %h: i64) {
  // expected-error@+1 {{'shard.update_halo' op has a negative size in halo_sizes [-2, ?]}}
  %0 = shard.update_halo %x on @g split_axes = [[0]] halo_sizes = [-2, %h] : tensor<8xf32>
  return
}

// -----

shard.grid @g(shape = 2x2)
func.func @nothing_but_halos(%x: memref<8xf32>) {
  // expected-error@+1 {{'shard.update_halo' op has halo_sizes [4, 4] on dimension 0 of size 8: there is nothing between them}}
  %0 = shard.update_halo %x on @g split_axes = [[0]] halo_sizes = [4, 4] : memref<8xf32>
  return
}

// -----

shard.grid @g(shape = 2x2)
func.func @unknown_size_without_operand(%x: memref<8xf32>) {
  // expected-error@+1 {{'shard.update_halo' op has 0 operands for the 1 unknown numbers in halo_sizes = [1, ?]}}
  %0 = shard.update_halo %x on @g split_axes = [[0]] halo_sizes = [1, -9223372036854775808] : memref<8xf32>
  return
}

// -----

shard.grid @g(shape = 2x2)
func.func @scalar(%x: tensor<f32>) {
  // expected-error@+1 {{must be non-0-ranked}}
  %0 = shard.update_halo %x on @g split_axes = [[]] : tensor<f32>
  return
}
