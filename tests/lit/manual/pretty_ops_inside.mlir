// Shardy's ops in its pretty text, inside of a manual computation in its pretty text, as JAX prints them.
//
// REQUIRES: jaxlib
// RUN: shard-opt %s --split-input-file --spmd | filecheck %s

// CHECK-LABEL: func.func @constraint
// CHECK-NEXT: %[[EXP:.*]] = stablehlo.exponential %arg0 : tensor<2x2xf32>
// CHECK-NEXT: return %[[EXP]]
sdy.mesh @m = <["d"=2, "x"=2]>
func.func @constraint(%arg0: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %1 = sdy.manual_computation(%arg0) in_shardings=[<@m, [{"x"}, {?}]>] out_shardings=[<@m, [{"x"}, {?}]>] manual_axes={"x"} (%a: tensor<2x4xf32>) {
    %b = stablehlo.exponential %a : tensor<2x4xf32>
    %c = sdy.sharding_constraint %b <@m, [{}, {"d"}]> : tensor<2x4xf32>
    sdy.return %c : tensor<2x4xf32>
  } : (tensor<4x4xf32>) -> tensor<4x4xf32>
  return %1 : tensor<4x4xf32>
}

// -----

// CHECK-LABEL: func.func @nested
// CHECK-NEXT: %[[PIECE:.*]] = shard.all_slice %arg0 on @m grid_axes = [0] slice_axis = 0
// CHECK-NEXT: %[[EXP:.*]] = stablehlo.exponential %[[PIECE]] : tensor<1xf32>
// CHECK-NEXT: %[[BACK:.*]] = shard.all_gather %[[EXP]] on @m grid_axes = [0] gather_axis = 0
// CHECK-NEXT: return %[[BACK]]
sdy.mesh @m = <["d"=2, "x"=2]>
func.func @nested(%arg0: tensor<4xf32>) -> tensor<4xf32> {
  %1 = sdy.manual_computation(%arg0) in_shardings=[<@m, [{"x"}]>] out_shardings=[<@m, [{"x"}]>] manual_axes={"x"} (%a: tensor<2xf32>) {
    %2 = sdy.manual_computation(%a) in_shardings=[<@m, [{"d"}]>] out_shardings=[<@m, [{"d"}]>] manual_axes={"d"} (%b: tensor<1xf32>) {
      %c = stablehlo.exponential %b : tensor<1xf32>
      sdy.return %c : tensor<1xf32>
    } : (tensor<2xf32>) -> tensor<2xf32>
    sdy.return %2 : tensor<2xf32>
  } : (tensor<4xf32>) -> tensor<4xf32>
  return %1 : tensor<4xf32>
}

// -----

// CHECK-LABEL: func.func public @open_constraint
// CHECK-SAME: (%arg0: tensor<2x16xf32>
// CHECK-NEXT: %[[TANH:.*]] = stablehlo.tanh %arg0 : tensor<2x16xf32>
// CHECK-NEXT: return %[[TANH]]
sdy.mesh @mesh = <["d"=2, "m"=4]>
func.func public @open_constraint(%arg0: tensor<8x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"m"}, {}]>}) -> tensor<8x16xf32> {
  %0 = sdy.manual_computation(%arg0) in_shardings=[<@mesh, [{"m", ?}, {?}]>] out_shardings=[<@mesh, [{"m", ?}, {?}]>] manual_axes={"m"} (%arg2: tensor<2x16xf32>) {
    %3 = stablehlo.tanh %arg2 : tensor<2x16xf32>
    %4 = sdy.sharding_constraint %3 <@mesh, [{?}, {?}]> : tensor<2x16xf32>
    sdy.return %4 : tensor<2x16xf32>
  } : (tensor<8x16xf32>) -> tensor<8x16xf32>
  return %0 : tensor<8x16xf32>
}
