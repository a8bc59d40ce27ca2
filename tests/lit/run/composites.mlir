// A composite is the function that it is made of.
//
// RUN: shard-opt %s --spmd | filecheck %s
// RUN: shard-run %s --check | filecheck %s --check-prefix=RAN

// CHECK: call @{{gelu.*}}(%{{.*}}) : (tensor<2x6xf32>) -> tensor<2x6xf32>
// RAN: check passed
shard.grid @g(shape = 2)
func.func private @gelu.impl(%x: tensor<4x6xf32>) -> tensor<4x6xf32> attributes {no_inline} {
  %0 = stablehlo.logistic %x : tensor<4x6xf32>
  %1 = stablehlo.multiply %x, %0 : tensor<4x6xf32>
  return %1 : tensor<4x6xf32>
}
func.func @main(%x: tensor<4x6xf32> {mesh.sharding = #mesh.shard<@g, [[0]]>}) -> tensor<4x6xf32> {
  %0 = stablehlo.composite "example.gelu" %x {decomposition = @gelu.impl} : (tensor<4x6xf32>) -> tensor<4x6xf32>
  %1 = stablehlo.tanh %0 : tensor<4x6xf32>
  return %1 : tensor<4x6xf32>
}
