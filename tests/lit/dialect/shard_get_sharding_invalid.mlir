// RUN: shard-opt %s --split-input-file --verify-diagnostics

func.func @unranked(%x: tensor<*xf32>) {
  // expected-error@+1 {{custom op 'shard.get_sharding' invalid kind of type specified: expected builtin.tensor}}
  %0 = shard.get_sharding %x : tensor<*xf32> -> !shard.sharding
  return
}

// -----

func.func @buffer(%x: memref<4xf32>) {
  // expected-error@+1 {{custom op 'shard.get_sharding' invalid kind of type specified: expected builtin.tensor}}
  %0 = shard.get_sharding %x : memref<4xf32> -> !shard.sharding
  return
}

// -----

shard.grid @g(shape = 2x2)
func.func @of_a_matrix_for_a_vector(%x: tensor<4x4xf32>, %y: tensor<4xf32>) {
  %s = shard.sharding @g split_axes = [[], [1]]
  %0 = shard.shard %x to %s : tensor<4x4xf32>
  %t = shard.get_sharding %0 : tensor<4x4xf32> -> !shard.sharding
  // expected-error@+1 {{'shard.shard' op has split axes [[], [1]] for 2 dimensions, but the tensor has 1}}
  %1 = shard.shard %y to %t : tensor<4xf32>
  return
}

// -----

shard.grid @g(shape = 2x2)
func.func @for_a_value_annotated_twice(%x: tensor<4xf32>, %y: tensor<4xf32>) {
  %s = shard.sharding @g split_axes = [[0]]
  %0 = shard.shard %x to %s : tensor<4xf32>
  %t = shard.get_sharding %0 : tensor<4xf32> -> !shard.sharding
  // expected-error@+1 {{'shard.shard' op takes its sharding from another tensor, and annotates a value that is annotated twice: give it a 'shard.sharding' of its own}}
  %1 = shard.shard %y to %t : tensor<4xf32>
  %2 = shard.shard %y to %s : tensor<4xf32>
  return
}
