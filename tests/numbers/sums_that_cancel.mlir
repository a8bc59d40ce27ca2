// (x + c) - c is not x, by what the sum is rounded: a judge that simplifies it would find a fault.
shard.grid @g(shape = 2)
func.func @main(%x: tensor<24x24xf32> {mesh.sharding = #mesh.shard<@g, [[0]]>}) -> tensor<24x24xf32> {
  %c = stablehlo.constant dense<0.5> : tensor<24x24xf32>
  %0 = stablehlo.add %x, %c : tensor<24x24xf32>
  %1 = stablehlo.subtract %0, %c : tensor<24x24xf32>
  %2 = stablehlo.add %x, %x : tensor<24x24xf32>
  %3 = stablehlo.subtract %1, %2 : tensor<24x24xf32>
  return %3 : tensor<24x24xf32>
}
