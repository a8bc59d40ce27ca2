// What has no Python is refused where it stands.
//
// RUN: not shard-opt %s --spmd --emit-python=torch 2>&1 | filecheck %s

// CHECK: emit_python_invalid.mlir:11:8: error: 'stablehlo.rng' op
shard.grid @g(shape = 2)
func.func @main() -> tensor<4xf32> {
  %low = stablehlo.constant dense<0.0> : tensor<f32>
  %high = stablehlo.constant dense<1.0> : tensor<f32>
  %shape = stablehlo.constant dense<4> : tensor<1xi64>
  %0 = stablehlo.rng %low, %high, %shape, distribution = UNIFORM : (tensor<f32>, tensor<f32>, tensor<1xi64>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
