// RUN: shard-opt %s --split-input-file --lower='target=stablehlo' --verify-diagnostics

shard.grid @g(shape = 2)
func.func @message(%x: tensor<4xf32>) -> tensor<4xf32> attributes {mesh.form = "local"} {
  // expected-error@+1 {{a send cannot be written as StableHLO, where all devices run one program: use shard.shift, or mesh.collective_permute}}
  %0 = shard.send %x on @g grid_axes = [0] destination = [1] : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

func.func @buffer(%x: tensor<4xf32>) -> tensor<4xf32> attributes {mesh.form = "local"} {
  // expected-error@+1 {{'memref.alloc' op cannot be written as StableHLO}}
  %0 = memref.alloc() : memref<4xf32>
  return %x : tensor<4xf32>
}

// -----

shard.grid @g(shape = 2)
// expected-error@+1 {{function @early is in the annotated form: run --spmd before --lower}}
func.func @early(%x: tensor<4xf32> {mesh.sharding = #mesh.shard<@g, [[0]]>}) -> tensor<4xf32> {
  %s = shard.sharding @g split_axes = [[0]] : !shard.sharding
  %0 = shard.shard %x to %s : tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

// expected-error@+1 {{a tensor<?xf32> cannot be lowered: its sizes must be known}}
func.func @open(%x: tensor<?xf32>) -> tensor<?xf32> attributes {mesh.form = "local"} {
  return %x : tensor<?xf32>
}
