// Shardy's own text is read where jaxlib is installed; what is printed is generic.
//
// REQUIRES: jaxlib
// RUN: shard-opt %s | filecheck %s
// RUN: shard-opt %s | shard-opt | filecheck %s

// CHECK: sdy.mesh @m = <["x"=2, "y"=4]>
sdy.mesh @m = <["x"=2, "y"=4]>
// CHECK: sdy.mesh @one = <[], device_ids=[1]>
sdy.mesh @one = <[], device_ids=[1]>

// CHECK-LABEL: func.func @annotations
// CHECK-SAME{LITERAL}: (%arg0: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@m, [{"x"}, {"y":(1)2, ?}p1], replicated={"y":(2)2}>}
func.func @annotations(%x: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@m, [{"x"}, {"y":(1)2, ?}p1], replicated={"y":(2)2}>})
    -> tensor<8x8xf32> {
  // CHECK{LITERAL}: sdy.sharding_constraint %arg0 <@m, [{"x"}, {?}]> : tensor<8x8xf32>
  %0 = sdy.sharding_constraint %x <@m, [{"x"}, {?}]> : tensor<8x8xf32>
  // CHECK{LITERAL}: sdy.reshard %0 <@m, [{}, {"x"}]>
  %1 = sdy.reshard %0 <@m, [{}, {"x"}]> : tensor<8x8xf32>
  // CHECK: "sdy.sharding_group"(%1) {group_id = 4 : i64}
  sdy.sharding_group %1 group_id=4 : tensor<8x8xf32>
  // CHECK: "sdy.propagation_barrier"(%1) {allowed_direction = 1 : i32}
  %2 = sdy.propagation_barrier %1 allowed_direction=FORWARD : tensor<8x8xf32>
  // CHECK{LITERAL}: stablehlo.add %2, %2 {sdy.sharding = #sdy.sharding_per_value<[<@m, [{"x", ?}, {}]>]>, sdy.sharding_rule = #sdy.op_sharding_rule<([i, j], [i, j])->([i, j]) {i=8, j=8}>}
  %3 = stablehlo.add %2, %2 {sdy.sharding = #sdy.sharding_per_value<[<@m, [{"x", ?}, {}]>]>,
      sdy.sharding_rule = #sdy.op_sharding_rule<([i, j], [i, j])->([i, j]) {i=8, j=8}>} : tensor<8x8xf32>
  return %3 : tensor<8x8xf32>
}

// CHECK-LABEL: func.func @collectives
func.func @collectives(%x: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@m, [{}, {"x"}]>}) -> tensor<8x8xf32> {
  // CHECK{LITERAL}: "sdy.all_gather"(%arg0) {gathering_axes = #sdy<list_of_axis_ref_lists[{}, {"x"}]>, out_sharding = #sdy.sharding<@m, [{}, {}]>}
  %0 = sdy.all_gather [{}, {"x"}] %x out_sharding=<@m, [{}, {}]> : tensor<8x8xf32>
  return %0 : tensor<8x8xf32>
}

// CHECK-LABEL: func.func @computations
func.func @computations(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
  // CHECK: "sdy.manual_computation"(%arg0) ({
  %0 = sdy.manual_computation(%x) in_shardings=[<@m, [{"x"}, {}]>] out_shardings=[<@m, [{"x"}, {}]>] manual_axes={"x"} (%a: tensor<4x8xf32>) {
    // CHECK: func.call @callee
    %1 = func.call @callee(%a) : (tensor<4x8xf32>) -> tensor<4x8xf32>
    // CHECK: "sdy.return"
    sdy.return %1 : tensor<4x8xf32>
  // CHECK: manual_axes = #sdy<manual_axes{"x"}>
  } : (tensor<8x8xf32>) -> tensor<8x8xf32>
  // CHECK: "sdy.named_computation"(%{{.*}}) ({
  %2 = sdy.named_computation<"layer">(%0) in_shardings=[<@m, [{}, {"y"}]>] out_shardings=[<@m, [{?}, {?}]>] (%b: tensor<8x8xf32>) {
    sdy.return %b : tensor<8x8xf32>
  // CHECK: name = "layer"
  } : (tensor<8x8xf32>) -> tensor<8x8xf32>
  return %2 : tensor<8x8xf32>
}
func.func private @callee(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  return %x : tensor<4x8xf32>
}
