// RUN: shard-opt %s --split-input-file --verify-diagnostics

shard.grid @g(shape = 2x2)
func.func @more_lists_than_dimensions(%x: tensor<4x8xf32>) {
  %s = shard.sharding @g split_axes = [[0], [], []] : !shard.sharding
  // expected-error@+1 {{'shard.shard' op has split axes [[0], [], []] for 3 dimensions, but the tensor has 2}}
  %0 = shard.shard %x to %s : tensor<4x8xf32>
  return
}

// -----

shard.grid @g(shape = 2x2)
func.func @split_scalar(%x: tensor<f32>) {
  %s = shard.sharding @g split_axes = [[0]] : !shard.sharding
  // expected-error@+1 {{'shard.shard' op has split axes [[0]] for 1 dimensions, but the tensor has 0}}
  %0 = shard.shard %x to %s : tensor<f32>
  return
}

// -----

shard.grid @g(shape = 2x2)
func.func @halo_past_the_neighbour(%x: tensor<4x8xf32>) {
  %s = shard.sharding @g split_axes = [[], [1, 0]] halo_sizes = [2, 3] : !shard.sharding
  // expected-error@+1 {{'shard.shard' op has halo size 3 on dimension 1, whose smallest shard before the last has 2 of its 8 elements}}
  %0 = shard.shard %x to %s : tensor<4x8xf32>
  return
}

// -----

shard.grid @g(shape = 2x2)
func.func @offsets_end_early(%x: tensor<4x8xf32>) {
  %s = shard.sharding @g split_axes = [[0], [1]] sharded_dims_offsets = [0, 2, 4, 0, 5, 7]
      : !shard.sharding
  // expected-error@+1 {{'shard.shard' op has sharded_dims_offsets [0, 5, 7] along dimension 1, which end at 7, not at its size 8}}
  %0 = shard.shard %x to %s : tensor<4x8xf32>
  return
}

// -----

func.func @sharding_of_a_caller(%x: tensor<4x8xf32>, %s: !shard.sharding) {
  // expected-error@+1 {{'shard.shard' op takes a sharding that no 'shard.sharding' op makes}}
  %0 = shard.shard %x to %s : tensor<4x8xf32>
  return
}

// -----

func.func @sharding_of_nothing(%x: tensor<4x8xf32>) {
  %s = shard.get_sharding %x : tensor<4x8xf32> -> !shard.sharding
  // expected-error@+1 {{'shard.shard' op takes a sharding that no 'shard.sharding' op makes}}
  %0 = shard.shard %x to %s : tensor<4x8xf32>
  return
}

// -----

shard.grid @g(shape = 2x2)
func.func @unranked(%x: tensor<*xf32>) {
  %s = shard.sharding @g split_axes = [[0]] : !shard.sharding
  // expected-error@+1 {{invalid kind of type specified}}
  %0 = shard.shard %x to %s : tensor<*xf32>
  return
}

// -----

shard.grid @g(shape = 2x2)
func.func @memref(%x: memref<4xf32>) {
  %s = shard.sharding @g split_axes = [[0]] : !shard.sharding
  // expected-error@+1 {{invalid kind of type specified}}
  %0 = shard.shard %x to %s : memref<4xf32>
  return
}
