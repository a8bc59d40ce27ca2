// Propagation goes through a named computation as if it were not there; what is said of it holds.
//
// RUN: shard-opt %s --propagate --import  | filecheck %s
// RUN: shard-opt %s --import --canonicalize --propagate --import  | filecheck %s --check-prefix=AFTER
// RUN: shard-run %s --check | filecheck %s --check-prefix=NUMBERS

"sdy.mesh"() <{mesh = #sdy.mesh<["x"=2]>, sym_name = "m"}> : () -> ()

// CHECK{LITERAL}: func.func @main(%arg0: tensor<4x8xf32> {mesh.sharding = #mesh.shard<@m, [[0], []]>}) -> (tensor<4x8xf32> {mesh.sharding = #mesh.shard<@m, [[0], []]>})
func.func @main(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %s = arith.constant 1.0 : f32
  // CHECK-NOT: execute_region
  // CHECK{LITERAL}: math.tanh %arg0 {mesh.shardings = [#mesh.shard<@m, [[0], []]>]}
  %0:2 = "sdy.named_computation"(%x, %s) <{name = "act", out_shardings = #sdy.sharding_per_value<[<@m, [{"x"}, {}]>, <@m, []>]>}> ({
  ^bb0(%a: tensor<4x8xf32>, %b: f32):
    %1 = math.tanh %a : tensor<4x8xf32>
    "sdy.return"(%1, %b) : (tensor<4x8xf32>, f32) -> ()
  }) : (tensor<4x8xf32>, f32) -> (tensor<4x8xf32>, f32)
  return %0#0 : tensor<4x8xf32>
}
// AFTER-NOT: execute_region
// NUMBERS: check passed
