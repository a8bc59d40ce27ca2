// Each part is a module of its own; an error in one is at its line of the whole file.
//
// RUN: not shard-opt %s --split-input-file --spmd 2>&1 | filecheck %s

// CHECK: split_input_file.mlir:24:8: error: cannot shard a tensor as
// CHECK: func.func @first(%arg0: tensor<2xf32>
// CHECK: // -----
// CHECK: func.func @third(%arg0: tensor<4xf32>

shard.grid @g(shape = 2)
func.func @first(%x: tensor<4xf32>) -> tensor<4xf32> {
  %s = shard.sharding @g split_axes = [[0]] : !shard.sharding
  %0 = shard.shard %x to %s : tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

shard.grid @g(shape = 2)
func.func @second(%x: tensor<5xf32>, %n: i64) -> tensor<5xf32> {
  %s = shard.sharding @g split_axes = [[0]] sharded_dims_offsets = [0, %n, 5] : !shard.sharding


  %0 = shard.shard %x to %s : tensor<5xf32>
  return %0 : tensor<5xf32>
}

// -----

shard.grid @g(shape = 2)
func.func @third(%x: tensor<4xf32>) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}
