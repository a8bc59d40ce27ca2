// Annotations: of a value itself, for its users, of scalars, with halos and offsets that fit.
//
// RUN: shard-opt %s --verify-roundtrip | filecheck %s

shard.grid @g(shape = 2x2x4)
shard.grid @open(shape = ?)

// CHECK-LABEL: func.func @itself_then_users
func.func @itself_then_users(%x: tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>) {
  %s = shard.sharding @g split_axes = [[0]] : !shard.sharding
  %t = shard.sharding @g split_axes = [[], [1]] : !shard.sharding
  %u = shard.sharding @g split_axes = [[], [2]] : !shard.sharding
  // CHECK: [[OWN:%.*]] = shard.shard %arg0 to %{{.*}} : tensor<4x8xf32>
  %0 = shard.shard %x to %s : tensor<4x8xf32>
  // CHECK: shard.shard [[OWN]] to %{{.*}} annotate_for_users : tensor<4x8xf32>
  %1 = shard.shard %0 to %t annotate_for_users : tensor<4x8xf32>
  // CHECK: shard.shard [[OWN]] to %{{.*}} annotate_for_users : tensor<4x8xf32>
  %2 = shard.shard %0 to %u annotate_for_users : tensor<4x8xf32>
  return %1, %2 : tensor<4x8xf32>, tensor<4x8xf32>
}

// Upstream's own passes write the second of these in front of every use.
// CHECK-LABEL: func.func @repeated
func.func @repeated(%x: tensor<4xf32>) -> tensor<4xf32> {
  %s = shard.sharding @g split_axes = [[0]] : !shard.sharding
  %whole = shard.sharding @g split_axes = [[]] : !shard.sharding
  %0 = shard.shard %x to %s : tensor<4xf32>
  %1 = shard.shard %0 to %s annotate_for_users : tensor<4xf32>
  // CHECK-COUNT-3: shard.shard
  %2 = shard.shard %1 to %whole annotate_for_users : tensor<4xf32>
  return %2 : tensor<4xf32>
}

// Asks for the halos to be filled in; the shards stay what they are.
// CHECK-LABEL: func.func @halos_after_the_shards
func.func @halos_after_the_shards(%x: tensor<12xf32>, %h: i64) -> tensor<12xf32> {
  %s = shard.sharding @g split_axes = [[0]] : !shard.sharding
  %t = shard.sharding @g split_axes = [[0]] halo_sizes = [2, %h] : !shard.sharding
  %0 = shard.shard %x to %s : tensor<12xf32>
  // CHECK-COUNT-2: shard.shard
  %1 = shard.shard %0 to %t : tensor<12xf32>
  return %1 : tensor<12xf32>
}

// CHECK-LABEL: func.func @a_halo_of_the_smallest_shard
func.func @a_halo_of_the_smallest_shard(%x: tensor<7xf32>, %y: tensor<?xf32>) {
  %s = shard.sharding @g split_axes = [[0]] halo_sizes = [3, 0] : !shard.sharding
  // CHECK-COUNT-2: shard.shard
  %0 = shard.shard %x to %s : tensor<7xf32>
  %1 = shard.shard %y to %s : tensor<?xf32>
  return
}

// CHECK-LABEL: func.func @offsets_that_end_at_the_size
func.func @offsets_that_end_at_the_size(%x: tensor<8x14xf32>, %y: tensor<?x?xf32>, %n: i64) {
  %s = shard.sharding @g split_axes = [[], [2]] sharded_dims_offsets = [0, 2, 5, 9, 14]
      : !shard.sharding
  %t = shard.sharding @g split_axes = [[], [2]] sharded_dims_offsets = [0, 2, 5, 9, %n]
      : !shard.sharding
  // CHECK-COUNT-3: shard.shard
  %0 = shard.shard %x to %s : tensor<8x14xf32>
  %1 = shard.shard %0 to %t annotate_for_users : tensor<8x14xf32>
  %2 = shard.shard %y to %s : tensor<?x?xf32>
  return
}

// CHECK-LABEL: func.func @a_scalar_is_whole
func.func @a_scalar_is_whole(%x: tensor<f32>) -> tensor<f32> {
  %whole = shard.sharding @g split_axes = [[]] : !shard.sharding
  // CHECK: shard.shard %arg0 to %{{.*}} : tensor<f32>
  %0 = shard.shard %x to %whole : tensor<f32>
  return %0 : tensor<f32>
}

// CHECK-LABEL: func.func @a_grid_of_unknown_size
func.func @a_grid_of_unknown_size(%x: tensor<4xf32>) {
  %s = shard.sharding @open split_axes = [[0]] halo_sizes = [9, 9] : !shard.sharding
  // CHECK: shard.shard
  %0 = shard.shard %x to %s : tensor<4xf32>
  return
}
