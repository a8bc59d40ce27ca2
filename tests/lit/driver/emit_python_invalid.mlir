// What has no Python is refused where it stands.
//
// RUN: not shard-opt %s --spmd --emit-python=torch 2>&1 | filecheck %s

// CHECK: emit_python_invalid.mlir:8:8: error: 'stablehlo.fft' op
shard.grid @g(shape = 2)
func.func @main(%x: tensor<4xcomplex<f32>>) -> tensor<4xcomplex<f32>> {
  %0 = stablehlo.fft %x, type = FFT, length = [4] : (tensor<4xcomplex<f32>>) -> tensor<4xcomplex<f32>>
  return %0 : tensor<4xcomplex<f32>>
}
