// A manual computation becomes a region, entered by mesh.to_local and left by mesh.to_global; nested too.
//
// RUN: shard-opt %s --import | filecheck %s

"sdy.mesh"() <{mesh = #sdy.mesh<["x"=2, "y"=4]>, sym_name = "m"}> : () -> ()

// CHECK-LABEL: func.func @nested
func.func @nested(%x: tensor<16x8xf32>, %i: index) -> tensor<16x8xf32> {
  // CHECK: [[OUTER:%.*]] = scf.execute_region -> tensor<16x8xf32> no_inline {
  // CHECK-NEXT{LITERAL}: %1 = mesh.to_local %arg0 {manual_axes = [0], sharding = #mesh.shard<@m, [[0], [1]]>} : tensor<16x8xf32> -> tensor<8x8xf32>
  // CHECK-NEXT{LITERAL}: %2 = mesh.to_local %arg1 {manual_axes = [0], sharding = #mesh.shard<@m, []>} : index -> index
  %0 = "sdy.manual_computation"(%x, %i) <{in_shardings = #sdy.sharding_per_value<[<@m, [{"x"}, {"y"}]>, <@m, []>]>,
      manual_axes = #sdy<manual_axes{"x"}>, out_shardings = #sdy.sharding_per_value<[<@m, [{"x"}, {}]>]>}> ({
  ^bb0(%a: tensor<8x8xf32>, %j: index):
    // CHECK-NEXT: [[INNER:%.*]] = scf.execute_region -> tensor<8x8xf32> no_inline {
    // CHECK-NEXT{LITERAL}: mesh.to_local %1 {manual_axes = [1], sharding = #mesh.shard<@m, [[], [1]]>} : tensor<8x8xf32> -> tensor<8x2xf32>
    %1 = "sdy.manual_computation"(%a) <{in_shardings = #sdy.sharding_per_value<[<@m, [{}, {"y"}]>]>,
        manual_axes = #sdy<manual_axes{"y"}>, out_shardings = #sdy.sharding_per_value<[<@m, [{}, {"y"}]>]>}> ({
    ^bb0(%b: tensor<8x2xf32>):
      // CHECK-NEXT: math.tanh
      %2 = math.tanh %b : tensor<8x2xf32>
      // CHECK-NEXT{LITERAL}: mesh.to_global %6 {manual_axes = [1], sharding = #mesh.shard<@m, [[], [1]]>} : tensor<8x2xf32> -> tensor<8x8xf32>
      // CHECK-NEXT: scf.yield
      "sdy.return"(%2) : (tensor<8x2xf32>) -> ()
    // CHECK-NEXT: } {mesh.manual_axes = [1]}
    }) : (tensor<8x8xf32>) -> tensor<8x8xf32>
    "sdy.return"(%1) : (tensor<8x8xf32>) -> ()
  // CHECK: } {mesh.manual_axes = [0]}
  }) : (tensor<16x8xf32>, index) -> tensor<16x8xf32>
  // CHECK: return [[OUTER]]
  return %0 : tensor<16x8xf32>
}

// CHECK-LABEL: func.func @calls
func.func @calls(%x: tensor<8xf32>) -> tensor<8xf32> {
  %0 = "sdy.manual_computation"(%x) <{in_shardings = #sdy.sharding_per_value<[<@m, [{"x"}]>]>,
      manual_axes = #sdy<manual_axes{"x"}>, out_shardings = #sdy.sharding_per_value<[<@m, [{"x"}]>]>}> ({
  ^bb0(%a: tensor<4xf32>):
    // CHECK: func.call @callee
    %1 = func.call @callee(%a) : (tensor<4xf32>) -> tensor<4xf32>
    "sdy.return"(%1) : (tensor<4xf32>) -> ()
  }) : (tensor<8xf32>) -> tensor<8xf32>
  return %0 : tensor<8xf32>
}
func.func private @callee(%x: tensor<4xf32>) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}
