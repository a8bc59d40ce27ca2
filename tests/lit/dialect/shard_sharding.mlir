// Shardings by themselves: split axes, halos, and offsets of uneven shards, known and unknown.
//
// RUN: shard-opt %s --verify-roundtrip | filecheck %s

shard.grid @g(shape = 2x2x4)
shard.grid @one(shape = 3)
shard.grid @open(shape = ?x?)

// CHECK-LABEL: func.func @split_axes
func.func @split_axes() {
  // CHECK{LITERAL}: shard.sharding @g split_axes = [[]] : !shard.sharding
  %0 = shard.sharding @g split_axes = [[]] : !shard.sharding
  // CHECK{LITERAL}: shard.sharding @g split_axes = [[0], [], [2, 1]] : !shard.sharding
  %1 = shard.sharding @g split_axes = [[0], [], [2, 1]] : !shard.sharding
  // CHECK{LITERAL}: shard.sharding @open split_axes = [[], [1]] : !shard.sharding
  %2 = shard.sharding @open split_axes = [[], [1]] : !shard.sharding
  return
}

// CHECK-LABEL: func.func @halos
func.func @halos(%h: i64) {
  // CHECK{LITERAL}: split_axes = [[0], [], [1]] halo_sizes = [1, 2, 0, 3] : !shard.sharding
  %0 = shard.sharding @g split_axes = [[0], [], [1]] halo_sizes = [1, 2, 0, 3] : !shard.sharding
  // CHECK{LITERAL}: split_axes = [[0]] halo_sizes = [4, %arg0] : !shard.sharding
  %1 = shard.sharding @one split_axes = [[0]] halo_sizes = [4, %h] : !shard.sharding
  // CHECK{LITERAL}: split_axes = [[0]] halo_sizes = [%arg0, %arg0] : !shard.sharding
  %2 = shard.sharding @open split_axes = [[0]] halo_sizes = [%h, %h] : !shard.sharding
  return
}

// CHECK-LABEL: func.func @offsets
func.func @offsets(%o: i64) {
  // CHECK{LITERAL}: split_axes = [[0]] sharded_dims_offsets = [0, 1, 4, 6] : !shard.sharding
  %0 = shard.sharding @one split_axes = [[0]] sharded_dims_offsets = [0, 1, 4, 6] : !shard.sharding
  // CHECK{LITERAL}: split_axes = [[0]] sharded_dims_offsets = [0, 2, %arg0, 5] : !shard.sharding
  %1 = shard.sharding @one split_axes = [[0]] sharded_dims_offsets = [0, 2, %o, 5] : !shard.sharding
  // CHECK{LITERAL}: split_axes = [[0], [1]] sharded_dims_offsets = [0, 24, 32, 0, 0, 32]
  %2 = shard.sharding @g split_axes = [[0], [1]] sharded_dims_offsets = [0, 24, 32, 0, 0, 32]
      : !shard.sharding
  // Eight shards along one dimension: nine offsets, though the sizes of the axes add up to six.
  // CHECK{LITERAL}: split_axes = [[0, 2]] sharded_dims_offsets = [0, 1, 2, 3, 4, 5, 6, 7, 9]
  %3 = shard.sharding @g split_axes = [[0, 2]] sharded_dims_offsets = [0, 1, 2, 3, 4, 5, 6, 7, 9]
      : !shard.sharding
  return
}
