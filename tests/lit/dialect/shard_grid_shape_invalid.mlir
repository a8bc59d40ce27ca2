// RUN: shard-opt %s --split-input-file --verify-diagnostics

func.func @unknown_grid() {
  // expected-error@+1 {{Undefined required grid symbol "g"}}
  %0 = shard.grid_shape @g : index
  return
}

// -----

shard.grid @g(shape = 2x4)
func.func @axis_out_of_range() {
  // expected-error@+1 {{0-based grid axis index 2 is out of bounds. The referenced grid "g" is of rank 2}}
  %0:2 = shard.grid_shape @g axes = [0, 2] : index, index
  return
}

// -----

shard.grid @g(shape = 2x4)
func.func @axis_negative() {
  // expected-error@+1 {{0-based grid axis index -1 is out of bounds}}
  %0 = shard.grid_shape @g axes = [-1] : index
  return
}

// -----

shard.grid @g(shape = 2x4)
func.func @axis_twice() {
  // expected-error@+1 {{Grid axes contains duplicate elements}}
  %0:2 = shard.grid_shape @g axes = [1, 1] : index, index
  return
}

// -----

shard.grid @g(shape = 2x4)
func.func @results() {
  // expected-error@+1 {{Unexpected number of results 2. Expected 1}}
  %0:2 = shard.grid_shape @g axes = [1] : index, index
  return
}

// -----

shard.grid @g(shape = 2x4)
func.func @no_results() {
  // expected-error@+1 {{Unexpected number of results 0. Expected 2}}
  "shard.grid_shape"() <{grid = @g}> : () -> ()
  return
}
