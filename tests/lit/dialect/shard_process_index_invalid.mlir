// RUN: shard-opt %s --split-input-file --verify-diagnostics

func.func @multi_unknown_grid() {
  // expected-error@+1 {{Undefined required grid symbol "g"}}
  %0 = shard.process_multi_index on @g : index
  return
}

// -----

func.func @linear_unknown_grid() {
  // expected-error@+1 {{Undefined required grid symbol "g"}}
  %0 = shard.process_linear_index on @g : index
  return
}

// -----

shard.grid @g(shape = 2x4)
func.func @axis_out_of_range() {
  // expected-error@+1 {{0-based grid axis index 2 is out of bounds}}
  %0 = shard.process_multi_index on @g axes = [2] : index
  return
}

// -----

shard.grid @g(shape = 2x4)
func.func @axis_twice() {
  // expected-error@+1 {{Grid axes contains duplicate elements}}
  %0:2 = shard.process_multi_index on @g axes = [0, 0] : index, index
  return
}

// -----

shard.grid @g(shape = 2x4)
func.func @results() {
  // expected-error@+1 {{Unexpected number of results 1. Expected 2}}
  %0 = shard.process_multi_index on @g : index
  return
}
