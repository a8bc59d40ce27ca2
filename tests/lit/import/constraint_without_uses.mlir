// A constraint whose result has no uses says how its operand lies, if nothing else does; where the
// operand lies otherwise already, it is what comes after that sees it so.
//
// RUN: shard-opt %s --import | filecheck %s

"sdy.mesh"() <{mesh = #sdy.mesh<["x"=2]>, sym_name = "m"}> : () -> ()

// CHECK-LABEL: func.func @itself
// CHECK: mesh.annotate %arg0 {as_result = true
func.func @itself(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = "sdy.sharding_constraint"(%x) <{sharding = #sdy.sharding<@m, [{"x"}]>}>
    : (tensor<4xf32>) -> tensor<4xf32>
  return %x : tensor<4xf32>
}

// CHECK-LABEL: func.func @what_comes_after
// CHECK: %[[SEEN:.*]] = mesh.annotate %arg0 {as_result = false
// CHECK: return %[[SEEN]]
func.func @what_comes_after(%x: tensor<4xf32> {sdy.sharding = #sdy.sharding<@m, [{}]>})
    -> tensor<4xf32> {
  %0 = "sdy.sharding_constraint"(%x) <{sharding = #sdy.sharding<@m, [{"x"}]>}>
    : (tensor<4xf32>) -> tensor<4xf32>
  return %x : tensor<4xf32>
}

// CHECK-LABEL: func.func @of_a_result
// CHECK: %[[MADE:.*]] = stablehlo.abs
// CHECK: mesh.annotate %[[MADE]] {as_result = false
func.func @of_a_result(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.abs %x {sdy.sharding = #sdy.sharding_per_value<[<@m, [{}]>]>} : tensor<4xf32>
  %1 = "sdy.sharding_constraint"(%0) <{sharding = #sdy.sharding<@m, [{"x"}]>}>
    : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
