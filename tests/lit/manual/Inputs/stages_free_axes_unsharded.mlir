// The unsharded program of ../stages_free_axes.mlir: rows 0 to 3 and 4 to 7 meet in a maximum, and of each
// half, row 0 changes places with row 1; a device that gets nothing has zeros.
func.func @main(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %t = stablehlo.tanh %x : tensor<8x8xf32>
  %a = stablehlo.slice %t [0:4, 0:8] : (tensor<8x8xf32>) -> tensor<4x8xf32>
  %b = stablehlo.slice %t [4:8, 0:8] : (tensor<8x8xf32>) -> tensor<4x8xf32>
  %s = stablehlo.maximum %a, %b : tensor<4x8xf32>
  %n = stablehlo.negate %s : tensor<4x8xf32>
  %r0 = stablehlo.slice %n [0:1, 0:8] : (tensor<4x8xf32>) -> tensor<1x8xf32>
  %r1 = stablehlo.slice %n [1:2, 0:8] : (tensor<4x8xf32>) -> tensor<1x8xf32>
  %z = stablehlo.constant dense<0.0> : tensor<2x8xf32>
  %r = stablehlo.concatenate %r1, %r0, %z, dim = 0 : (tensor<1x8xf32>, tensor<1x8xf32>, tensor<2x8xf32>) -> tensor<4x8xf32>
  %c = stablehlo.cosine %r : tensor<4x8xf32>
  %g = stablehlo.concatenate %c, %c, dim = 0 : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<8x8xf32>
  return %g : tensor<8x8xf32>
}
