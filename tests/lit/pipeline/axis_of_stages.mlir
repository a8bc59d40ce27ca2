// The first axis is divided into stages, also where another one is named for them: then there is a warning.
//
// RUN: shard-opt %s --pipeline --verify-diagnostics

sdy.mesh @m = <["data"=2, "stage"=2]>
// expected-warning@+1 {{axis 0 of grid @m(2x2), 'data', is divided into stages, not 'stage': declare the axis of the stages first}}
func.func @main(%x: tensor<8x4xf32>, %w: tensor<4x4xf32>, %v: tensor<4x4xf32>) -> tensor<8x4xf32> {
  %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
  %1 = stablehlo.dot_general %0, %v, contracting_dims = [1] x [0] : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
  return %1 : tensor<8x4xf32>
}
