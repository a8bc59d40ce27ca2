// Regions become computations again: manual ones, nested too, and named ones with what they read.
//
// RUN: shard-opt %s --export-sdy | filecheck %s
// RUN: shard-opt %s --export-sdy --import --export-sdy | filecheck %s

"sdy.mesh"() <{mesh = #sdy.mesh<["x"=2, "y"=4]>, sym_name = "m"}> : () -> ()

// CHECK-LABEL: func.func @manual
func.func @manual(%x: tensor<16x8xf32>) -> tensor<16x8xf32> {
  // CHECK: %0 = "sdy.manual_computation"(%arg0) ({
  // CHECK-NEXT: ^bb0(%arg1: tensor<8x8xf32>):
  // CHECK-NEXT: %1 = "sdy.manual_computation"(%arg1) ({
  // CHECK-NEXT: ^bb0(%arg2: tensor<8x2xf32>):
  // CHECK-NEXT: %2 = math.tanh %arg2
  // CHECK-NEXT: "sdy.return"(%2)
  // CHECK-NEXT{LITERAL}: }) {in_shardings = #sdy.sharding_per_value<[<@m, [{}, {"y"}]>]>, manual_axes = #sdy<manual_axes{"y"}>, out_shardings = #sdy.sharding_per_value<[<@m, [{}, {"y"}]>]>} : (tensor<8x8xf32>) -> tensor<8x8xf32>
  // CHECK-NEXT: "sdy.return"(%1)
  // CHECK-NEXT{LITERAL}: }) {in_shardings = #sdy.sharding_per_value<[<@m, [{"x"}, {"y"}]>]>, manual_axes = #sdy<manual_axes{"x"}>, out_shardings = #sdy.sharding_per_value<[<@m, [{"x"}, {}]>]>} : (tensor<16x8xf32>) -> tensor<16x8xf32>
  %0 = "sdy.manual_computation"(%x) <{in_shardings = #sdy.sharding_per_value<[<@m, [{"x"}, {"y"}]>]>,
      manual_axes = #sdy<manual_axes{"x"}>, out_shardings = #sdy.sharding_per_value<[<@m, [{"x"}, {}]>]>}> ({
  ^bb0(%a: tensor<8x8xf32>):
    %1 = "sdy.manual_computation"(%a) <{in_shardings = #sdy.sharding_per_value<[<@m, [{}, {"y"}]>]>,
        manual_axes = #sdy<manual_axes{"y"}>, out_shardings = #sdy.sharding_per_value<[<@m, [{}, {"y"}]>]>}> ({
    ^bb0(%b: tensor<8x2xf32>):
      %2 = math.tanh %b : tensor<8x2xf32>
      "sdy.return"(%2) : (tensor<8x2xf32>) -> ()
    }) : (tensor<8x8xf32>) -> tensor<8x8xf32>
    "sdy.return"(%1) : (tensor<8x8xf32>) -> ()
  }) : (tensor<16x8xf32>) -> tensor<16x8xf32>
  return %0 : tensor<16x8xf32>
}

// CHECK-LABEL: func.func @named
func.func @named(%x: tensor<8xf32>, %y: tensor<8xf32>) -> tensor<8xf32> {
  // CHECK-NEXT: %0 = "sdy.named_computation"(%arg0, %arg1) ({
  // CHECK-NEXT: ^bb0(%arg2: tensor<8xf32>, %arg3: tensor<8xf32>):
  // CHECK-NEXT: %1 = arith.addf %arg2, %arg3
  // CHECK-NEXT: "sdy.return"(%1)
  // CHECK-NEXT{LITERAL}: }) {name = "f", out_shardings = #sdy.sharding_per_value<[<@m, [{"x"}]>]>} : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %0 = "sdy.named_computation"(%x, %y) <{name = "f", out_shardings = #sdy.sharding_per_value<[<@m, [{"x"}]>]>}> ({
  ^bb0(%a: tensor<8xf32>, %b: tensor<8xf32>):
    %1 = arith.addf %a, %b : tensor<8xf32>
    "sdy.return"(%1) : (tensor<8xf32>) -> ()
  }) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  return %0 : tensor<8xf32>
}
