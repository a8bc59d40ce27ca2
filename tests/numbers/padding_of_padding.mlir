sdy.mesh @m = <["a0"=2]>
func.func @main(%x: tensor<4x2xf32>) -> tensor<9x2xf32> {
  %c = stablehlo.constant dense<0.0> : tensor<f32>
  %0 = stablehlo.pad %x, %c, low = [1, 0], high = [0, 0], interior = [0, 0] : (tensor<4x2xf32>, tensor<f32>) -> tensor<5x2xf32>
  %1 = stablehlo.pad %0, %c, low = [0, 0], high = [0, 0], interior = [1, 0] : (tensor<5x2xf32>, tensor<f32>) -> tensor<9x2xf32>
  return %1 : tensor<9x2xf32>
}
