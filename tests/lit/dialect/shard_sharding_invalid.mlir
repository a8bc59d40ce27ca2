// RUN: shard-opt %s --split-input-file --verify-diagnostics

func.func @unknown_grid() {
  // expected-error@+1 {{Undefined required grid symbol "g"}}
  %0 = shard.sharding @g split_axes = [[0]] : !shard.sharding
  return
}

// -----

func.func @not_a_grid() {
  // expected-error@+1 {{Undefined required grid symbol "not_a_grid"}}
  %0 = shard.sharding @not_a_grid split_axes = [[0]] : !shard.sharding
  return
}

// -----

shard.grid @g(shape = 2x2)
func.func @axis_out_of_range() {
  // expected-error@+1 {{'shard.sharding' op grid axis 2 in split axes [[0], [2]] is not in grid @g of rank 2}}
  %0 = shard.sharding @g split_axes = [[0], [2]] : !shard.sharding
  return
}

// -----

shard.grid @g(shape = 2x2)
func.func @axis_past_16_bits() {
  // expected-error@+2 {{integer value too large}}
  // expected-error@+1 {{failed to parse Shard_GridAxesArrayAttr}}
  %0 = shard.sharding @g split_axes = [[32768]] : !shard.sharding
  return
}

// -----

shard.grid @g(shape = 2x2)
func.func @axis_negative() {
  // expected-error@+1 {{grid axis is expected to be non-negative}}
  %0 = shard.sharding @g split_axes = [[-1]] : !shard.sharding
  return
}

// -----

shard.grid @g(shape = 2x2)
func.func @axis_twice() {
  // expected-error@+1 {{grid axis duplicated: name each axis once}}
  %0 = shard.sharding @g split_axes = [[0], [0]] : !shard.sharding
  return
}

// -----

shard.grid @g(shape = 2x2)
func.func @no_lists() {
  // expected-error@+2 {{expected '['}}
  // expected-error@+1 {{failed to parse Shard_GridAxesArrayAttr}}
  %0 = shard.sharding @g split_axes = [] : !shard.sharding
  return
}

// -----

shard.grid @g(shape = 2x2)
func.func @halos_missing() {
  // expected-error@+1 {{halo sizes must be specified for all split axes}}
  %0 = shard.sharding @g split_axes = [[0], [1]] halo_sizes = [1, 2] : !shard.sharding
  return
}

// -----

shard.grid @g(shape = 2x2)
func.func @halo_negative(%h: i64) {
  // expected-error@+1 {{'shard.sharding' op has a negative size in halo_sizes [?, -1]}}
  %0 = shard.sharding @g split_axes = [[0]] halo_sizes = [%h, -1] : !shard.sharding
  return
}

// -----

shard.grid @g(shape = 2x2)
func.func @halos_and_offsets() {
  // expected-error@+1 {{halo sizes and shard offsets are mutually exclusive}}
  %0 = shard.sharding @g split_axes = [[0]] halo_sizes = [1, 2] sharded_dims_offsets = [0, 2, 4]
      : !shard.sharding
  return
}

// -----

shard.grid @g(shape = ?)
func.func @offsets_on_an_unknown_grid() {
  // expected-error@+1 {{sharded dims offsets are not allowed for device grids with dynamic shape}}
  %0 = shard.sharding @g split_axes = [[0]] sharded_dims_offsets = [0, 2, 4] : !shard.sharding
  return
}

// -----

shard.grid @g(shape = 2x2)
func.func @too_few_offsets() {
  // expected-error@+1 {{sharded dims offsets has wrong size}}
  %0 = shard.sharding @g split_axes = [[0]] sharded_dims_offsets = [0, 2] : !shard.sharding
  return
}

// -----

shard.grid @g(shape = 2x2)
func.func @too_many_offsets() {
  // expected-error@+1 {{'shard.sharding' op has 4 sharded_dims_offsets [0, 2, 4, 6]: expected 3, one more than shards for each split dimension}}
  %0 = shard.sharding @g split_axes = [[0]] sharded_dims_offsets = [0, 2, 4, 6] : !shard.sharding
  return
}

// -----

shard.grid @g(shape = 2x4)
func.func @offsets_of_a_sum_of_sizes() {
  // expected-error@+1 {{'shard.sharding' op has 7 sharded_dims_offsets [0, 1, 2, 3, 4, 5, 6]: expected 9,}}
  %0 = shard.sharding @g split_axes = [[0, 1]] sharded_dims_offsets = [0, 1, 2, 3, 4, 5, 6]
      : !shard.sharding
  return
}

// -----

shard.grid @g(shape = 2)
func.func @offsets_of_nothing() {
  // expected-error@+1 {{'shard.sharding' op has 1 sharded_dims_offsets [0]: expected 0,}}
  %0 = shard.sharding @g split_axes = [[]] sharded_dims_offsets = [0] : !shard.sharding
  return
}

// -----

shard.grid @g(shape = 2)
func.func @offsets_start() {
  // expected-error@+1 {{'shard.sharding' op has sharded_dims_offsets [1, 2, 4] along dimension 1, which start at 1, not at 0}}
  %0 = shard.sharding @g split_axes = [[], [0]] sharded_dims_offsets = [1, 2, 4] : !shard.sharding
  return
}

// -----

shard.grid @g(shape = 2)
func.func @offsets_go_down() {
  // expected-error@+1 {{sharded dims offsets must be non-decreasing}}
  %0 = shard.sharding @g split_axes = [[0]] sharded_dims_offsets = [0, 4, 3] : !shard.sharding
  return
}

// -----

shard.grid @g(shape = 2x4)
func.func @offsets_go_down_late() {
  // expected-error@+1 {{'shard.sharding' op has sharded_dims_offsets [0, 1, 2, 3, 4, 5, 6, 7, 6] along dimension 0, which go down from 7 to 6}}
  %0 = shard.sharding @g split_axes = [[0, 1]] sharded_dims_offsets = [0, 1, 2, 3, 4, 5, 6, 7, 6]
      : !shard.sharding
  return
}

// -----

shard.grid @g(shape = 2)
func.func @unknown_number_without_operand() {
  // expected-error@+1 {{'shard.sharding' op has 0 operands for the 1 unknown numbers in halo_sizes = [?, 1]}}
  %0 = shard.sharding @g split_axes = [[0]] halo_sizes = [-9223372036854775808, 1] : !shard.sharding
  return
}

// -----

shard.grid @g(shape = 2)
func.func @operand_without_unknown_number(%o: i64) {
  // expected-error@+1 {{'shard.sharding' op has 1 operands for the 0 unknown numbers in sharded_dims_offsets = [0, 1, 2]}}
  %0 = "shard.sharding"(%o) <{grid = @g, split_axes = #shard<axisarray[[0]]>,
      static_sharded_dims_offsets = array<i64: 0, 1, 2>, operandSegmentSizes = array<i32: 1, 0>}>
      : (i64) -> !shard.sharding
  return
}
