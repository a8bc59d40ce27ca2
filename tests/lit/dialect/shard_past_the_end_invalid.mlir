// What upstream's verifier would read past the end of, or divide by zero for: it is refused first.
//
// RUN: shard-opt %s --split-input-file --verify-diagnostics

shard.grid @g(shape = 2x2)
func.func @slice(%x: tensor<4x8xf32>) {
  // expected-error@+1 {{'shard.all_slice' op has slice_axis = 2, which is no dimension of its operand}}
  %0 = shard.all_slice %x on @g grid_axes = [0] slice_axis = 2 : tensor<4x8xf32> -> tensor<4x8xf32>
  return
}

// -----

shard.grid @g(shape = 2x2)
func.func @negative(%x: tensor<4x8xf32>) {
  // expected-error@+1 {{'shard.all_slice' op has slice_axis = -1, which is no dimension of its operand}}
  %0 = shard.all_slice %x on @g grid_axes = [0] slice_axis = -1 : tensor<4x8xf32> -> tensor<4x8xf32>
  return
}

// -----

shard.grid @g(shape = 2x2)
func.func @split(%x: tensor<4x8xf32>) {
  // expected-error@+1 {{'shard.all_to_all' op has split_axis = 2, which is no dimension of its operand}}
  %0 = shard.all_to_all %x on @g grid_axes = [0] split_axis = 2 concat_axis = 0
      : tensor<4x8xf32> -> tensor<8x4xf32>
  return
}

// -----

shard.grid @g(shape = 2x2)
func.func @split_and_concat(%x: tensor<4x8xf32>) {
  // expected-error@+1 {{'shard.all_to_all' op has split_axis = 9, which is no dimension of its operand}}
  %0 = shard.all_to_all %x on @g grid_axes = [0] split_axis = 9 concat_axis = 9
      : tensor<4x8xf32> -> tensor<4x8xf32>
  return
}

// -----

shard.grid @g(shape = 2x2)
func.func @concat(%x: tensor<4x8xf32>) {
  // expected-error@+1 {{'shard.all_to_all' op has concat_axis = 1000000, which is no dimension of its operand}}
  %0 = shard.all_to_all %x on @g grid_axes = [0] split_axis = 0 concat_axis = 1000000
      : tensor<4x8xf32> -> tensor<2x16xf32>
  return
}

// -----

shard.grid @g(shape = 2x2)
func.func @reduce_scatter_of_a_scalar(%x: tensor<f32>) {
  // expected-error-re@+1 {{'shard.reduce_scatter' op has scatter_{{dim|axis}} = 0, which is no dimension of its operand}}
  %0 = shard.reduce_scatter %x on @g grid_axes = [0] scatter_axis = 0 : tensor<f32> -> tensor<f32>
  return
}

// -----

shard.grid @g(shape = 2x2)
func.func @scatter(%x: tensor<4x8xf32>) {
  // expected-error-re@+1 {{'shard.scatter' op has scatter_{{dim|axis}} = 2, which is no dimension of its operand}}
  %0 = shard.scatter %x on @g grid_axes = [0] scatter_axis = 2 root = [0]
      : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return
}

// -----

// expected-error@+1 {{grid @g has size 0 on axis 1: sizes are at least 1}}
shard.grid @g(shape = 2x0)
func.func @no_devices(%x: tensor<4xf32>) {
  %0 = shard.all_slice %x on @g grid_axes = [1] slice_axis = 0 : tensor<4xf32> -> tensor<?xf32>
  return
}

// -----

// expected-error@+1 {{grid @g has more than 9223372036854775807 devices}}
shard.grid @g(shape = 4294967296x4294967296)
func.func @devices_whose_number_wraps_to_none(%x: tensor<4xf32>) {
  %0 = shard.all_slice %x on @g slice_axis = 0 grid_axes = [0, 1] : tensor<4xf32> -> tensor<?xf32>
  return
}

// -----

shard.grid @g(shape = 2x2)
func.func @grid_axis_of_offsets() {
  // expected-error@+1 {{'shard.sharding' op grid axis 100 in split axes [[100]] is not in grid @g of rank 2}}
  %0 = shard.sharding @g split_axes = [[100]] sharded_dims_offsets = [0, 2, 4]
  return
}
