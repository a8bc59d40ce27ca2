"""Programs that take as little as there can be to run."""

TINY = """
shard.grid @g(shape = 2)
func.func @main(%x: tensor<4xf32> {mesh.sharding = #mesh.shard<@g, [[0]]>}) -> tensor<f32> {
  %zero = arith.constant dense<0.0> : tensor<f32>
  %sum = linalg.reduce {arith.addf} ins(%x : tensor<4xf32>) outs(%zero : tensor<f32>)
           dimensions = [0]
  return %sum : tensor<f32>
}
"""
