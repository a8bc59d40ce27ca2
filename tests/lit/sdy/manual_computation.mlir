// Manual computations nest, may have nothing to do with any axis, and may call.
//
// RUN: shard-opt %s --verify-roundtrip | filecheck %s
// RUN: shard-opt %s --mlir-print-op-generic | shard-opt | filecheck %s

"sdy.mesh"() <{mesh = #sdy.mesh<["x"=2, "y"=4]>, sym_name = "m"}> : () -> ()

// CHECK-LABEL: func.func @nested
func.func @nested(%x: tensor<16x8xf32>) -> tensor<16x8xf32> {
  // CHECK: "sdy.manual_computation"(%arg0) ({
  // CHECK-NEXT: ^bb0(%{{.*}}: tensor<8x8xf32>):
  %0 = "sdy.manual_computation"(%x) <{in_shardings = #sdy.sharding_per_value<[<@m, [{"x"}, {"y"}]>]>,
      manual_axes = #sdy<manual_axes{"x"}>, out_shardings = #sdy.sharding_per_value<[<@m, [{"x"}, {}]>]>}> ({
  ^bb0(%a: tensor<8x8xf32>):
    // CHECK: "sdy.manual_computation"(%{{.*}}) ({
    // CHECK-NEXT: ^bb0(%{{.*}}: tensor<8x2xf32>):
    %1 = "sdy.manual_computation"(%a) <{in_shardings = #sdy.sharding_per_value<[<@m, [{}, {"y"}]>]>,
        manual_axes = #sdy<manual_axes{"y"}>, out_shardings = #sdy.sharding_per_value<[<@m, [{}, {"y"}]>]>}> ({
    ^bb0(%b: tensor<8x2xf32>):
      // CHECK: "sdy.return"(%{{.*}}) : (tensor<8x2xf32>) -> ()
      "sdy.return"(%b) : (tensor<8x2xf32>) -> ()
    // CHECK{LITERAL}: {in_shardings = #sdy.sharding_per_value<[<@m, [{}, {"y"}]>]>, manual_axes = #sdy<manual_axes{"y"}>, out_shardings = #sdy.sharding_per_value<[<@m, [{}, {"y"}]>]>} : (tensor<8x8xf32>) -> tensor<8x8xf32>
    }) : (tensor<8x8xf32>) -> tensor<8x8xf32>
    "sdy.return"(%1) : (tensor<8x8xf32>) -> ()
  // CHECK{LITERAL}: {in_shardings = #sdy.sharding_per_value<[<@m, [{"x"}, {"y"}]>]>, manual_axes = #sdy<manual_axes{"x"}>, out_shardings = #sdy.sharding_per_value<[<@m, [{"x"}, {}]>]>} : (tensor<16x8xf32>) -> tensor<16x8xf32>
  }) : (tensor<16x8xf32>) -> tensor<16x8xf32>
  return %0 : tensor<16x8xf32>
}

// CHECK-LABEL: func.func @no_axes
func.func @no_axes(%x: tensor<?xf32>) -> tensor<?xf32> {
  %0 = "sdy.manual_computation"(%x) <{in_shardings = #sdy.sharding_per_value<[<@m, [{"x"}]>]>,
      manual_axes = #sdy<manual_axes{}>, out_shardings = #sdy.sharding_per_value<[<@m, [{}]>]>}> ({
  ^bb0(%a: tensor<?xf32>):
    "sdy.return"(%a) : (tensor<?xf32>) -> ()
  // CHECK: manual_axes = #sdy<manual_axes{}>
  }) : (tensor<?xf32>) -> tensor<?xf32>
  return %0 : tensor<?xf32>
}

// CHECK-LABEL: func.func @calls
func.func @calls(%x: tensor<8xf32>) -> tensor<8xf32> {
  %0 = "sdy.manual_computation"(%x) <{in_shardings = #sdy.sharding_per_value<[<@m, [{"x"}]>]>,
      manual_axes = #sdy<manual_axes{"x"}>, out_shardings = #sdy.sharding_per_value<[<@m, [{"x"}]>]>}> ({
  ^bb0(%a: tensor<4xf32>):
    // CHECK: func.call @callee(%{{.*}}) : (tensor<4xf32>) -> tensor<4xf32>
    %1 = func.call @callee(%a) : (tensor<4xf32>) -> tensor<4xf32>
    "sdy.return"(%1) : (tensor<4xf32>) -> ()
  }) : (tensor<8xf32>) -> tensor<8xf32>
  return %0 : tensor<8xf32>
}
func.func private @callee(%x: tensor<4xf32>) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}
