// The unsharded program of ../stages.mlir.
func.func @main(%x: tensor<8x8xf32>, %w: tensor<8x8xf32>) -> (tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>) {
  %0 = stablehlo.tanh %x : tensor<8x8xf32>
  %z = stablehlo.constant dense<0.0> : tensor<f32>
  %r = stablehlo.reshape %0 : (tensor<8x8xf32>) -> tensor<4x2x8xf32>
  %s = stablehlo.reduce(%r init: %z) applies stablehlo.add across dimensions = [0] : (tensor<4x2x8xf32>, tensor<f32>) -> tensor<2x8xf32>
  %sb = stablehlo.broadcast_in_dim %s, dims = [1, 2] : (tensor<2x8xf32>) -> tensor<4x2x8xf32>
  %sc = stablehlo.reshape %sb : (tensor<4x2x8xf32>) -> tensor<8x8xf32>
  %n = stablehlo.pad %0, %z, low = [2, 0], high = [-2, 0], interior = [0, 0] : (tensor<8x8xf32>, tensor<f32>) -> tensor<8x8xf32>
  %i = stablehlo.iota dim = 0 : tensor<4x2x8xf32>
  %ir = stablehlo.reshape %i : (tensor<4x2x8xf32>) -> tensor<8x8xf32>
  %i2 = stablehlo.add %ir, %ir : tensor<8x8xf32>
  %a = stablehlo.add %sc, %n : tensor<8x8xf32>
  %1 = stablehlo.add %a, %i2 : tensor<8x8xf32>
  %3 = stablehlo.dot_general %1, %w, contracting_dims = [1] x [0] : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %p = stablehlo.slice %3 [7:8, 0:8] : (tensor<8x8xf32>) -> tensor<1x8xf32>
  %q = stablehlo.slice %3 [0:7, 0:8] : (tensor<8x8xf32>) -> tensor<7x8xf32>
  %4 = stablehlo.concatenate %p, %q, dim = 0 : (tensor<1x8xf32>, tensor<7x8xf32>) -> tensor<8x8xf32>
  return %1, %3, %4 : tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>
}
