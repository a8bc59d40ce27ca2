// A two-layer perceptron, relu(x @ w1) @ w2, weight stationary on a row of two devices
// (arXiv 2211.05102, figure 2a): one all-gather of x, one reduce-scatter of the result.
shard.grid @grid(shape = 2)

func.func @main(%x: tensor<2x4x8xf32>, %w1: tensor<8x32xf32>, %w2: tensor<32x8xf32>)
    -> tensor<2x4x8xf32> {
  %x_lies = shard.sharding @grid split_axes = [[], [], [0]] : !shard.sharding
  %w1_lies = shard.sharding @grid split_axes = [[], [0]] : !shard.sharding
  %w2_lies = shard.sharding @grid split_axes = [[0]] : !shard.sharding
  %xs = shard.shard %x to %x_lies : tensor<2x4x8xf32>
  %w1s = shard.shard %w1 to %w1_lies : tensor<8x32xf32>
  %w2s = shard.shard %w2 to %w2_lies : tensor<32x8xf32>

  %f0 = arith.constant 0.0 : f32
  %zeros = arith.constant dense<0.0> : tensor<2x4x32xf32>
  %h_init = tensor.empty() : tensor<2x4x32xf32>
  %h_zero = linalg.fill ins(%f0 : f32) outs(%h_init : tensor<2x4x32xf32>) -> tensor<2x4x32xf32>
  %h = linalg.contract
      indexing_maps = [affine_map<(b, s, n, k) -> (b, s, k)>,
                       affine_map<(b, s, n, k) -> (k, n)>,
                       affine_map<(b, s, n, k) -> (b, s, n)>]
      ins(%xs, %w1s : tensor<2x4x8xf32>, tensor<8x32xf32>)
      outs(%h_zero : tensor<2x4x32xf32>) -> tensor<2x4x32xf32>
  %relu = arith.maximumf %h, %zeros : tensor<2x4x32xf32>
  %y_init = tensor.empty() : tensor<2x4x8xf32>
  %y_zero = linalg.fill ins(%f0 : f32) outs(%y_init : tensor<2x4x8xf32>) -> tensor<2x4x8xf32>
  %y = linalg.contract
      indexing_maps = [affine_map<(b, s, n, k) -> (b, s, k)>,
                       affine_map<(b, s, n, k) -> (k, n)>,
                       affine_map<(b, s, n, k) -> (b, s, n)>]
      ins(%relu, %w2s : tensor<2x4x32xf32>, tensor<32x8xf32>)
      outs(%y_zero : tensor<2x4x8xf32>) -> tensor<2x4x8xf32>
  %ys = shard.shard %y to %x_lies annotate_for_users : tensor<2x4x8xf32>
  return %ys : tensor<2x4x8xf32>
}
