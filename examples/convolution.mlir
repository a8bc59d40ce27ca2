// A convolution and a pooling of an image in 3x2 shards: what windows read around a shard comes from
// the neighbours, the corners from two devices away.

shard.grid @grid(shape = 3x2)

func.func @main(%x: tensor<1x24x16x2xf32> {mesh.sharding = #mesh.shard<@grid, [[], [0], [1]]>},
                %w: tensor<3x3x2x4xf32>) -> tensor<1x12x8x4xf32> {
  %0 = "stablehlo.convolution"(%x, %w) <{batch_group_count = 1 : i64,
      dimension_numbers = #stablehlo.conv<[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]>,
      feature_group_count = 1 : i64, padding = dense<1> : tensor<2x2xi64>}>
    : (tensor<1x24x16x2xf32>, tensor<3x3x2x4xf32>) -> tensor<1x24x16x4xf32>
  %least = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %1 = "stablehlo.reduce_window"(%0, %least) <{window_dimensions = array<i64: 1, 3, 3, 1>,
      window_strides = array<i64: 1, 2, 2, 1>,
      padding = dense<[[0, 0], [1, 0], [1, 0], [0, 0]]> : tensor<4x2xi64>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %larger = stablehlo.maximum %a, %b : tensor<f32>
    stablehlo.return %larger : tensor<f32>
  }) : (tensor<1x24x16x4xf32>, tensor<f32>) -> tensor<1x12x8x4xf32>
  return %1 : tensor<1x12x8x4xf32>
}
