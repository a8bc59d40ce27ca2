// Floats of 16 bits that count further than integers of 16 bits.
func.func @main(%x: tensor<40000xf32>) -> tensor<40000xf32> {
  %f = stablehlo.iota dim = 0 : tensor<40000xf16>
  %c = stablehlo.convert %f : (tensor<40000xf16>) -> tensor<40000xf32>
  %0 = stablehlo.add %x, %c : tensor<40000xf32>
  return %0 : tensor<40000xf32>
}
