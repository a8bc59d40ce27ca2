// The shape of one device's shard, for known and unknown sizes and places.
//
// RUN: shard-opt %s --verify-roundtrip | filecheck %s

shard.grid @g(shape = 3x4)

// CHECK-LABEL: func.func @shape
func.func @shape(%n: index, %i: index) {
  %s = shard.sharding @g split_axes = [[0], [1]] : !shard.sharding
  // CHECK: shard.shard_shape dims = [9, 12] sharding = %{{.*}} device = [2, 3] : index, index
  %0:2 = shard.shard_shape dims = [9, 12] sharding = %s device = [2, 3] : index, index
  // CHECK: shard.shard_shape dims = [%arg0
  // CHECK-SAME: , 13] sharding = %{{.*}} device = [%arg1
  // CHECK-SAME: , 0] : index, index
  %1:2 = shard.shard_shape dims = [%n, 13] sharding = %s device = [%i, 0] : index, index
  return
}

// CHECK-LABEL: func.func @of_offsets
func.func @of_offsets(%n: index, %i: index) {
  %s = shard.sharding @g split_axes = [[0]] sharded_dims_offsets = [0, 1, 4, 9] : !shard.sharding
  // CHECK-COUNT-2: shard.shard_shape
  %0:2 = shard.shard_shape dims = [9, %n] sharding = %s device = [%i, %i] : index, index
  %1:2 = shard.shard_shape dims = [%n, 5] sharding = %s device = [%i, %i] : index, index
  return
}
