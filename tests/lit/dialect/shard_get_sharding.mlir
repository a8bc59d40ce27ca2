// The sharding of a tensor is a value: to return, to ask for a shard's shape, or to annotate with.
//
// RUN: shard-opt %s --verify-roundtrip | filecheck %s

shard.grid @g(shape = 2x2)

// CHECK-LABEL: func.func @returned
func.func @returned(%x: tensor<4x8xf32>) -> !shard.sharding {
  // CHECK: shard.get_sharding %arg0 : tensor<4x8xf32> -> !shard.sharding
  %0 = shard.get_sharding %x : tensor<4x8xf32> -> !shard.sharding
  return %0 : !shard.sharding
}

// CHECK-LABEL: func.func @asked_for_a_shape
func.func @asked_for_a_shape(%x: tensor<4xf32>, %i: index) -> index {
  %s = shard.get_sharding %x : tensor<4xf32> -> !shard.sharding
  // CHECK: shard.shard_shape dims = [4] sharding = %{{.*}} device = [%arg1
  %0 = shard.shard_shape dims = [4] sharding = %s device = [%i] : index
  return %0 : index
}
