// RUN: shard-opt %s --split-input-file --verify-diagnostics

shard.grid @g(shape = 2x4)
func.func @fewer_dims_than_lists() {
  %s = shard.sharding @g split_axes = [[0], [1]] : !shard.sharding
  // expected-error@+1 {{'shard.shard_shape' op has split axes [[0], [1]] for 2 dimensions, but the tensor has 1}}
  %0 = shard.shard_shape dims = [4] sharding = %s device = [0, 0] : index
  return
}

// -----

shard.grid @g(shape = 2x4)
func.func @results() {
  %s = shard.sharding @g split_axes = [[0]] : !shard.sharding
  // expected-error@+1 {{'shard.shard_shape' op has 3 results for dims = [4, 8]}}
  %0:3 = shard.shard_shape dims = [4, 8] sharding = %s device = [0, 0] : index, index, index
  return
}

// -----

shard.grid @g(shape = 2x4)
func.func @nothing_asked() {
  %s = shard.sharding @g split_axes = [[0]] : !shard.sharding
  // expected-error@+1 {{'shard.shard_shape' op has 0 results for dims = []}}
  "shard.shard_shape"(%s) <{dims = array<i64>, device = array<i64: 0, 0>,
      operandSegmentSizes = array<i32: 0, 1, 0>}> : (!shard.sharding) -> ()
  return
}

// -----

shard.grid @g(shape = 2x4)
func.func @negative_size(%n: index) {
  %s = shard.sharding @g split_axes = [[0]] : !shard.sharding
  // expected-error@+1 {{'shard.shard_shape' op has a negative size in dims = [?, -8]}}
  %0:2 = shard.shard_shape dims = [%n, -8] sharding = %s device = [0, 0] : index, index
  return
}

// -----

shard.grid @g(shape = 2x4)
func.func @device_of_another_rank() {
  %s = shard.sharding @g split_axes = [[0]] : !shard.sharding
  // expected-error@+1 {{'shard.shard_shape' op has 1 coordinates in device = [0], expected 2: one for each of the axes [0, 1] of grid @g}}
  %0 = shard.shard_shape dims = [4] sharding = %s device = [0] : index
  return
}

// -----

shard.grid @g(shape = 2x4)
func.func @device_past_the_grid(%i: index) {
  %s = shard.sharding @g split_axes = [[0]] : !shard.sharding
  // expected-error@+1 {{'shard.shard_shape' op has coordinate 4 in device = [?, 4] on axis 1 of grid @g, of size 4}}
  %0 = shard.shard_shape dims = [4] sharding = %s device = [%i, 4] : index
  return
}

// -----

shard.grid @g(shape = 2x?)
func.func @device_in_front_of_the_grid() {
  %s = shard.sharding @g split_axes = [[0]] : !shard.sharding
  // expected-error@+1 {{'shard.shard_shape' op has coordinate -1 in device = [0, -1] on axis 1 of grid @g, of size ?}}
  %0 = shard.shard_shape dims = [4] sharding = %s device = [0, -1] : index
  return
}

// -----

shard.grid @g(shape = 2)
func.func @offsets_of_another_size() {
  %s = shard.sharding @g split_axes = [[0]] sharded_dims_offsets = [0, 1, 4] : !shard.sharding
  // expected-error@+1 {{'shard.shard_shape' op has sharded_dims_offsets [0, 1, 4] along dimension 0, which end at 4, not at its size 5}}
  %0 = shard.shard_shape dims = [5] sharding = %s device = [0] : index
  return
}

// -----

shard.grid @g(shape = 2)
func.func @unknown_size_without_operand() {
  %s = shard.sharding @g split_axes = [[0]] : !shard.sharding
  // expected-error@+1 {{'shard.shard_shape' op has 0 operands for the 1 unknown numbers in dims = [?]}}
  %0 = "shard.shard_shape"(%s) <{dims = array<i64: -9223372036854775808>, device = array<i64: 0>,
      operandSegmentSizes = array<i32: 0, 1, 0>}> : (!shard.sharding) -> index
  return
}
