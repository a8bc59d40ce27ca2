// A constraint is read from properties and from attributes, with uses and without.
//
// RUN: shard-opt %s --verify-roundtrip | filecheck %s
// RUN: shard-opt %s --mlir-print-op-generic | shard-opt | filecheck %s

"sdy.mesh"() <{mesh = #sdy.mesh<["x"=2]>, sym_name = "m"}> : () -> ()

// CHECK-LABEL: func.func @constraints
func.func @constraints(%x: tensor<8x8xf32>, %y: tensor<8x8xf32>) -> tensor<8x8xf32> {
  // CHECK{LITERAL}: %0 = sdy.sharding_constraint %arg0 <@m, [{"x"}, {?}]> : tensor<8x8xf32>
  %0 = "sdy.sharding_constraint"(%x) <{sharding = #sdy.sharding<@m, [{"x"}, {?}]>}> : (tensor<8x8xf32>) -> tensor<8x8xf32>
  // CHECK{LITERAL}: %1 = sdy.sharding_constraint %arg1 <@m, [{}, {"x"}]>
  %1 = "sdy.sharding_constraint"(%y) {sharding = #sdy.sharding<@m, [{}, {"x"}]>} : (tensor<8x8xf32>) -> tensor<8x8xf32>
  // CHECK{LITERAL}: %2 = sdy.sharding_constraint %0 <@m, [{}, {}]> {mine = 1 : i64}
  %2 = "sdy.sharding_constraint"(%0) <{sharding = #sdy.sharding<@m, [{}, {}]>}> {mine = 1 : i64} : (tensor<8x8xf32>) -> tensor<8x8xf32>
  // CHECK{LITERAL}: %3 = sdy.sharding_constraint %2 <@m, [{?}, {}]>
  %3 = "sdy.sharding_constraint"(%2) <{
      // on lines of its own
      sharding = #sdy.sharding<@m, [{?}, {}]>  // with comments
    }> : (tensor<8x8xf32>) -> tensor<8x8xf32>
  return %3 : tensor<8x8xf32>
}
