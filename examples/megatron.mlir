// A feed-forward layer, tanh(x @ w1) @ w2, data parallel along grid axis 0 and tensor parallel
// along axis 1 (arXiv 1909.08053): two annotations, one all-reduce.
shard.grid @grid(shape = 2x2)

func.func @main(%x: tensor<8x16xf32>, %w1: tensor<16x64xf32>, %w2: tensor<64x16xf32>)
    -> tensor<8x16xf32> {
  %rows = shard.sharding @grid split_axes = [[0]] : !shard.sharding
  %columns = shard.sharding @grid split_axes = [[], [1]] : !shard.sharding
  %xs = shard.shard %x to %rows : tensor<8x16xf32>
  %w1s = shard.shard %w1 to %columns : tensor<16x64xf32>

  %zero = arith.constant 0.0 : f32
  %h_init = tensor.empty() : tensor<8x64xf32>
  %h_zero = linalg.fill ins(%zero : f32) outs(%h_init : tensor<8x64xf32>) -> tensor<8x64xf32>
  %h = linalg.matmul ins(%xs, %w1s : tensor<8x16xf32>, tensor<16x64xf32>)
                     outs(%h_zero : tensor<8x64xf32>) -> tensor<8x64xf32>
  %t = math.tanh %h : tensor<8x64xf32>
  %y_init = tensor.empty() : tensor<8x16xf32>
  %y_zero = linalg.fill ins(%zero : f32) outs(%y_init : tensor<8x16xf32>) -> tensor<8x16xf32>
  %y = linalg.matmul ins(%t, %w2 : tensor<8x64xf32>, tensor<64x16xf32>)
                     outs(%y_zero : tensor<8x16xf32>) -> tensor<8x16xf32>
  return %y : tensor<8x16xf32>
}
