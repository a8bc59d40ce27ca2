// An open dimension takes what its neighbours have; a closed one stays as it is written.
//
// RUN: shard-opt %s --propagate --import  | filecheck %s
// RUN: shard-run %s --check --entry open | filecheck %s --check-prefix=NUMBERS

"sdy.mesh"() <{mesh = #sdy.mesh<["x"=2, "y"=2]>, sym_name = "m"}> : () -> ()

// CHECK-LABEL: func.func @open
// CHECK-SAME{LITERAL}: %arg0: tensor<4x8xf32> {mesh.sharding = #mesh.shard<@m, [[0], [1]]>}
func.func @open(%x: tensor<4x8xf32> {sdy.sharding = #sdy.sharding<@m, [{"x"}, {?}]>}) -> tensor<4x8xf32> {
  %0 = "sdy.sharding_constraint"(%x) <{sharding = #sdy.sharding<@m, [{?}, {"y"}]>}> : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %1 = math.tanh %0 : tensor<4x8xf32>
  return %1 : tensor<4x8xf32>
}

// CHECK-LABEL: func.func @closed
// CHECK-SAME{LITERAL}: %arg0: tensor<4x8xf32> {mesh.sharding = #mesh.shard<@m, [[0], []]>}
func.func @closed(%x: tensor<4x8xf32> {sdy.sharding = #sdy.sharding<@m, [{"x"}, {}]>}) -> tensor<4x8xf32> {
  %0 = "sdy.sharding_constraint"(%x) <{sharding = #sdy.sharding<@m, [{?}, {"y"}]>}> : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %1 = math.tanh %0 : tensor<4x8xf32>
  return %1 : tensor<4x8xf32>
}
// NUMBERS: check passed
