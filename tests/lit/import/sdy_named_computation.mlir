// A named computation becomes a region with its name; what is open everywhere says nothing.
//
// RUN: shard-opt %s --import | filecheck %s

"sdy.mesh"() <{mesh = #sdy.mesh<["x"=2]>, sym_name = "m"}> : () -> ()

// CHECK-LABEL: func.func @named
func.func @named(%x: tensor<8xf32>, %y: tensor<8xf32>, %s: f32) -> tensor<8xf32> {
  // CHECK: scf.execute_region -> (tensor<8xf32>, tensor<8xf32>, f32) no_inline {
  // CHECK-NEXT{LITERAL}: %1 = mesh.annotate %arg0 {as_result = false, required = true, sharding = #mesh.shard<@m, [[0]]>}
  // CHECK-NEXT: [[T:%.*]] = math.tanh %1
  // CHECK-NEXT: scf.yield [[T]], %arg1, %arg2
  // CHECK-NEXT{LITERAL}: } {mesh.named_computation = "f", mesh.shardings = [#mesh.shard<@m, [[0]]>, unit, unit]}
  %0:3 = "sdy.named_computation"(%x, %y, %s) <{in_shardings = #sdy.sharding_per_value<[<@m, [{"x"}]>, <@m, [{?}]>, <@m, []>]>, name = "f",
      out_shardings = #sdy.sharding_per_value<[<@m, [{"x"}]>, <@m, [{?}]>, <@m, []>]>}> ({
  ^bb0(%a: tensor<8xf32>, %b: tensor<8xf32>, %t: f32):
    %1 = math.tanh %a : tensor<8xf32>
    "sdy.return"(%1, %b, %t) : (tensor<8xf32>, tensor<8xf32>, f32) -> ()
  }) : (tensor<8xf32>, tensor<8xf32>, f32) -> (tensor<8xf32>, tensor<8xf32>, f32)
  return %0#0 : tensor<8xf32>
}
