// An image in 2x2 shards: what windows read around a shard comes from the neighbours, corners too.
//
// RUN: shard-run %s --check | filecheck %s

// CHECK: update_halo 0 2 1x10x8x2xf32 1x10x8x2xf32 128
// CHECK: update_halo 1 2 1x10x10x2xf32 1x10x10x2xf32 160
// CHECK: update_halo 0 2 1x9x8x2xf32 1x9x8x2xf32 64
// CHECK: update_halo 1 2 1x9x9x2xf32 1x9x9x2xf32 72
// CHECK: total 424
// CHECK: check passed

shard.grid @g(shape = 2x2)

func.func @main(%x: tensor<1x16x16x2xf32> {mesh.sharding = #mesh.shard<@g, [[], [0], [1]]>},
                %w: tensor<3x3x2x2xf32>)
    -> (tensor<1x8x8x2xf32> {mesh.sharding = #mesh.shard<@g, [[], [0], [1]]>}) {
  %0 = "stablehlo.convolution"(%x, %w) <{batch_group_count = 1 : i64,
      dimension_numbers = #stablehlo.conv<[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]>,
      feature_group_count = 1 : i64, padding = dense<1> : tensor<2x2xi64>}>
    : (tensor<1x16x16x2xf32>, tensor<3x3x2x2xf32>) -> tensor<1x16x16x2xf32>
  %i = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %1 = "stablehlo.reduce_window"(%0, %i) <{window_dimensions = array<i64: 1, 3, 3, 1>,
      window_strides = array<i64: 1, 2, 2, 1>,
      padding = dense<[[0, 0], [0, 1], [0, 1], [0, 0]]> : tensor<4x2xi64>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %m = stablehlo.maximum %a, %b : tensor<f32>
    stablehlo.return %m : tensor<f32>
  }) : (tensor<1x16x16x2xf32>, tensor<f32>) -> tensor<1x8x8x2xf32>
  return %1 : tensor<1x8x8x2xf32>
}
