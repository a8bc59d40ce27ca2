func.func @main(%x: tensor<8x16xf32>) -> tensor<8x4xf32> {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %0 = stablehlo.tanh %x : tensor<8x16xf32>
  %1 = stablehlo.reshape %0 : (tensor<8x16xf32>) -> tensor<8x4x4xf32>
  %2 = stablehlo.reduce(%1 init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<8x4x4xf32>, tensor<f32>) -> tensor<8x4xf32>
  return %2 : tensor<8x4xf32>
}
