// RUN: shard-opt %s --split-input-file --verify-diagnostics

func.func @unknown_grid(%i: index) {
  // expected-error@+1 {{Undefined required grid symbol "g"}}
  %0:2 = shard.neighbors_linear_indices on @g[%i] split_axes = [0] : index, index
  return
}

// -----

shard.grid @g(shape = 2x4)
func.func @device_of_another_rank(%i: index) {
  // expected-error@+1 {{'shard.neighbors_linear_indices' op has 1 device coordinates for grid @g of rank 2}}
  %0:2 = shard.neighbors_linear_indices on @g[%i] split_axes = [0] : index, index
  return
}

// -----

shard.grid @g(shape = 2x4)
func.func @axis_out_of_range(%i: index) {
  // expected-error@+1 {{'shard.neighbors_linear_indices' op grid axis 2 in split axes [[2]] is not in grid @g of rank 2}}
  %0:2 = shard.neighbors_linear_indices on @g[%i, %i] split_axes = [2] : index, index
  return
}

// -----

shard.grid @g(shape = 2x4)
func.func @axis_negative(%i: index) {
  // expected-error@+1 {{'shard.neighbors_linear_indices' op grid axis -1 in split axes [[-1]] is not in grid @g of rank 2}}
  %0:2 = shard.neighbors_linear_indices on @g[%i, %i] split_axes = [-1] : index, index
  return
}

// -----

shard.grid @g(shape = 2x4)
func.func @axis_twice(%i: index) {
  // expected-error@+1 {{'shard.neighbors_linear_indices' op grid axis 1 is used twice in split axes [[1, 1]]}}
  %0:2 = shard.neighbors_linear_indices on @g[%i, %i] split_axes = [1, 1] : index, index
  return
}
