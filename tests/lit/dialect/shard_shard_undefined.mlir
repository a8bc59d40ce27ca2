// What upstream's documentation of `shard.shard` calls undefined, by the names that it has there.
//
// RUN: shard-opt %s --split-input-file --verify-diagnostics

shard.grid @grid0(shape = 2x2)
func.func @annotate_on_same_result_with_different_sharding(%x: tensor<4x8xf32>) {
  %rows = shard.sharding @grid0 split_axes = [[0]]
  %more_rows = shard.sharding @grid0 split_axes = [[1]]
  %0 = shard.shard %x to %rows : tensor<4x8xf32>
  // expected-error@+1 {{'shard.shard' op annotates one value as @grid0 [[1]] that is annotated as @grid0 [[0]]: they must agree, or the later one be for its users (annotate_for_users)}}
  %1 = shard.shard %0 to %more_rows : tensor<4x8xf32>
  return
}

// -----

shard.grid @grid0(shape = 2x2)
func.func @annotate_on_same_result_same_value_with_different_sharding(%x: tensor<4x8xf32>) {
  %rows = shard.sharding @grid0 split_axes = [[0]]
  %more_rows = shard.sharding @grid0 split_axes = [[1]]
  %0 = shard.shard %x to %rows : tensor<4x8xf32>
  // expected-error@+1 {{'shard.shard' op annotates one value as @grid0 [[1]] that is annotated as @grid0 [[0]]: they must agree}}
  %1 = shard.shard %x to %more_rows : tensor<4x8xf32>
  return
}

// -----

shard.grid @grid0(shape = 2x2)
func.func @annotate_on_same_operand_with_different_sharding(%x: tensor<4x8xf32>) {
  %rows = shard.sharding @grid0 split_axes = [[0]]
  %more_rows = shard.sharding @grid0 split_axes = [[1]]
  %0 = shard.shard %x to %rows annotate_for_users : tensor<4x8xf32>
  // expected-error@+1 {{'shard.shard' op annotates as @grid0 [[1]] what is annotated as @grid0 [[0]] for its users: annotate the value itself first, and then once for each way that it is used}}
  %1 = shard.shard %0 to %more_rows annotate_for_users : tensor<4x8xf32>
  return
}

// -----

shard.grid @grid0(shape = 2x2)
func.func @result_annotated_after_operand(%x: tensor<4x8xf32>) {
  %rows = shard.sharding @grid0 split_axes = [[0]]
  %more_rows = shard.sharding @grid0 split_axes = [[1]]
  %0 = shard.shard %x to %rows annotate_for_users : tensor<4x8xf32>
  // expected-error@+1 {{'shard.shard' op annotates as @grid0 [[1]] what is annotated as @grid0 [[0]] for its users}}
  %1 = shard.shard %0 to %more_rows : tensor<4x8xf32>
  return
}

// -----

// Another grid, and other offsets, are other shards.

shard.grid @g(shape = 2)
shard.grid @h(shape = 2)
func.func @two_grids(%x: tensor<4xf32>) {
  %s = shard.sharding @g split_axes = [[0]]
  %t = shard.sharding @h split_axes = [[0]]
  %0 = shard.shard %x to %s : tensor<4xf32>
  // expected-error@+1 {{annotates one value as @h [[0]] that is annotated as @g [[0]]}}
  %1 = shard.shard %0 to %t : tensor<4xf32>
  return
}

// -----

shard.grid @g(shape = 2)
func.func @two_cuts(%x: tensor<4xf32>) {
  %s = shard.sharding @g split_axes = [[0]] sharded_dims_offsets = [0, 1, 4]
  %t = shard.sharding @g split_axes = [[0]]
  %0 = shard.shard %x to %s : tensor<4xf32>
  // expected-error@+1 {{annotates one value as @g [[0]] that is annotated as @g [[0]] sharded_dims_offsets = [0, 1, 4]}}
  %1 = shard.shard %0 to %t : tensor<4xf32>
  return
}

// -----

shard.grid @g(shape = 2x2)
func.func @same_shards_written_otherwise(%x: tensor<4x8xf32>) {
  %s = shard.sharding @g split_axes = [[0]]
  %t = shard.sharding @g split_axes = [[0], []]
  %0 = shard.shard %x to %s : tensor<4x8xf32>
  %1 = shard.shard %0 to %t : tensor<4x8xf32>
  %2 = shard.shard %x to %t : tensor<4x8xf32>
  return
}
