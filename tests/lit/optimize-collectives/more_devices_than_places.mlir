// A window of two places is on four devices: nothing is laid on a part of their axis.
//
// RUN: shard-run %s --check | filecheck %s

// CHECK: check passed
shard.grid @g(shape = 4)
func.func @main(%x: tensor<4x4x8x4x4xf32> {mesh.sharding = #mesh.shard<@g, [[], [], [], [0], []]>},
                %w: tensor<2x2x2xf32> {mesh.sharding = #mesh.shard<@g, [[0], [], []]>},
                %into: tensor<4x2x4x2x4xf32> {mesh.sharding = #mesh.shard<@g, [[0], [], [], [], []]>})
    -> (tensor<4x2x4x2x4xf32> {mesh.sharding = #mesh.shard<@g, [[], [], [0], [], []]>}) {
  %r = linalg.pooling_ndhwc_min {strides = dense<2> : tensor<3xi64>}
    ins(%x, %w : tensor<4x4x8x4x4xf32>, tensor<2x2x2xf32>) outs(%into : tensor<4x2x4x2x4xf32>) -> tensor<4x2x4x2x4xf32>
  return %r : tensor<4x2x4x2x4xf32>
}
