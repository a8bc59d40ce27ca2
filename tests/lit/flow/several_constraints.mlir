// Constraints without uses that contradict each other tell the axes of their value together.
//
// RUN: shard-opt %s --propagate --import  | filecheck %s
// RUN: shard-run %s --check --entry=contradicting | filecheck %s --check-prefix=NUMBERS

sdy.mesh @mesh = <["x"=2, "y"=2]>

// CHECK-LABEL: func.func @unused
// CHECK: stablehlo.tanh
// CHECK-SAME{LITERAL}: mesh.shardings = [#mesh.shard<@mesh, [[0], [1]]>]
func.func @unused(%x: tensor<8x6xf32>) -> tensor<8x6xf32> {
  %y = stablehlo.exponential %x : tensor<8x6xf32>
  %rows = sdy.sharding_constraint %y <@mesh, [{"x"}, {}]> : tensor<8x6xf32>
  %columns = sdy.sharding_constraint %y <@mesh, [{}, {"y"}]> : tensor<8x6xf32>
  %z = stablehlo.tanh %y : tensor<8x6xf32>
  return %z : tensor<8x6xf32>
}

// One that contradicts those before it tells nothing.
// CHECK-LABEL: func.func @contradicting
// CHECK: stablehlo.tanh
// CHECK-SAME{LITERAL}: mesh.shardings = [#mesh.shard<@mesh, [[0], [1]]>]
// NUMBERS: no communication
// NUMBERS: check passed
func.func @contradicting(%x: tensor<8x6xf32>) -> tensor<8x6xf32> {
  %y = stablehlo.exponential %x : tensor<8x6xf32>
  %columns = sdy.sharding_constraint %y <@mesh, [{}, {"y"}]> : tensor<8x6xf32>
  %rows = sdy.sharding_constraint %y <@mesh, [{"x"}, {}]> : tensor<8x6xf32>
  %both = sdy.sharding_constraint %y <@mesh, [{"y"}, {}]> : tensor<8x6xf32>
  %z = stablehlo.tanh %y : tensor<8x6xf32>
  return %z : tensor<8x6xf32>
}
