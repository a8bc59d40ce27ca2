// Functions that have nothing to do with the one that is run do not matter: not what cannot be cut, or lowered, in them.
//
// RUN: shard-run %s --check | filecheck %s
// RUN: shard-run %s --bisect | filecheck %s
// RUN: not shard-run %s --entry=known_to_others 2>&1 | filecheck %s --check-prefix=KNOWN
// RUN: not shard-run %s --entry=manual --check 2>&1 | filecheck %s --check-prefix=MANUAL
// RUN: not shard-opt %s --spmd --lower 2>&1 | filecheck %s --check-prefix=ALL

// CHECK: @main on 2 devices
// CHECK: all_reduce
// CHECK: check passed
shard.grid @g(shape = 2)
func.func @main(%x: tensor<4x8xf32>) -> tensor<4xf32> {
  %0 = func.call @sum(%x) : (tensor<4x8xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
func.func private @sum(%x: tensor<4x8xf32>) -> tensor<4xf32> {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %0 = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<4x8xf32>, tensor<f32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// What calls it still says how its argument lies.
func.func @caller(%x: tensor<4x8xf32> {mesh.sharding = #mesh.shard<@g, [[], [0]]>}) -> tensor<4xf32> {
  %0 = func.call @main(%x) : (tensor<4x8xf32>) -> tensor<4xf32>
  %1 = "stablehlo.custom_call"(%0) {call_target_name = "unknown"} : (tensor<4xf32>) -> tensor<4xf32>
  return %1 : tensor<4xf32>
}

// KNOWN: other_functions.mlir:34:8: error: 'stablehlo.custom_call' op of @solve cannot be lowered: there is no code for it that a device could run
// KNOWN-NOT: note:
// ALL: cannot be lowered
func.func @known_to_others(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %0 = stablehlo.custom_call @solve(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}

// MANUAL: error: a manual computation says what single devices do
func.func @manual(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %0 = scf.execute_region -> tensor<4x8xf32> no_inline {
    %a = "mesh.to_local"(%x) {manual_axes = [0], sharding = #mesh.shard<@g, [[0], []]>} : (tensor<4x8xf32>) -> tensor<2x8xf32>
    %y = "mesh.to_global"(%a) {manual_axes = [0], sharding = #mesh.shard<@g, [[0], []]>} : (tensor<2x8xf32>) -> tensor<4x8xf32>
    scf.yield %y : tensor<4x8xf32>
  } {mesh.manual_axes = [0]}
  return %0 : tensor<4x8xf32>
}
