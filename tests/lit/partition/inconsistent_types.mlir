// Types that an op's rule does not allow together are refused, not cut.
//
// RUN: not shard-opt %s --partition 2>&1 | filecheck %s

shard.grid @g(shape = 2)
func.func @f(%a: tensor<4x8xf32, #mesh.shard<@g, [[], [0]]>>, %b: tensor<8x4xf32>,
             %c: tensor<4x4xf32>) -> tensor<4x4xf32> attributes {mesh.form = "distributed"} {
  // CHECK{LITERAL}: inconsistent_types.mlir:9:8: error: 'linalg.matmul' op result 0 is [[], []], but by the other types and its rule it must be [[], [], [0]]
  %0 = linalg.matmul ins(%a, %b : tensor<4x8xf32, #mesh.shard<@g, [[], [0]]>>, tensor<8x4xf32>)
                     outs(%c : tensor<4x4xf32>) -> tensor<4x4xf32>
  return %0 : tensor<4x4xf32>
}
