// Named computations have shardings for what goes in and comes out, for either, or for none.
//
// RUN: shard-opt %s --verify-roundtrip | filecheck %s
// RUN: shard-opt %s --mlir-print-op-generic | shard-opt | filecheck %s

"sdy.mesh"() <{mesh = #sdy.mesh<["x"=2]>, sym_name = "m"}> : () -> ()

// CHECK-LABEL: func.func @named
func.func @named(%x: tensor<8xf32>, %y: f32) -> tensor<8xf32> {
  // CHECK: "sdy.named_computation"(%arg0, %arg1) ({
  %0 = "sdy.named_computation"(%x, %y) <{in_shardings = #sdy.sharding_per_value<[<@m, [{"x"}]>, <@m, []>]>, name = "f",
      out_shardings = #sdy.sharding_per_value<[<@m, [{?}]>]>}> ({
  ^bb0(%a: tensor<8xf32>, %b: f32):
    "sdy.return"(%a) : (tensor<8xf32>) -> ()
  // CHECK{LITERAL}: {in_shardings = #sdy.sharding_per_value<[<@m, [{"x"}]>, <@m, []>]>, name = "f", out_shardings = #sdy.sharding_per_value<[<@m, [{?}]>]>} : (tensor<8xf32>, f32) -> tensor<8xf32>
  }) : (tensor<8xf32>, f32) -> tensor<8xf32>
  %1 = "sdy.named_computation"(%0) <{name = "g"}> ({
  ^bb0(%a: tensor<8xf32>):
    // CHECK: func.call @callee
    %2 = func.call @callee(%a) : (tensor<8xf32>) -> tensor<8xf32>
    "sdy.return"(%2) : (tensor<8xf32>) -> ()
  // CHECK: {name = "g"} : (tensor<8xf32>) -> tensor<8xf32>
  }) : (tensor<8xf32>) -> tensor<8xf32>
  return %1 : tensor<8xf32>
}
func.func private @callee(%x: tensor<8xf32>) -> tensor<8xf32> {
  return %x : tensor<8xf32>
}
