// The axes of `shard.sharding` are numbers, which the parser's error says.
//
// RUN: not shard-opt %s 2>&1 | filecheck %s

shard.grid @g(shape = 2x2)
func.func @main(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  // CHECK: names_invalid.mlir:8:41: error: custom op 'shard.sharding' expected integer value: its axes are numbers, also where the grid names them
  %s = shard.sharding @g split_axes = [["rows"]] : !shard.sharding
  return %x : tensor<4x8xf32>
}
