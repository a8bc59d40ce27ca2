// A module that declares no grid passes through unchanged, and one device runs it.
//
// RUN: shard-opt %s --propagate --materialize --optimize-collectives --partition | filecheck %s
// RUN: shard-opt %s --spmd --bundle-collectives --pick-device=rank=0 | filecheck %s
// RUN: shard-opt %s --import --export-shard --export-mesh --export-sdy | filecheck %s
// RUN: shard-run %s --check | filecheck %s --check-prefix=CHECKED

// CHECK: module {
// CHECK-NEXT: func.func @main(%arg0: tensor<8x8xf32>) -> tensor<64xf32> {
// CHECK-NEXT: %cst = stablehlo.constant dense<1.000000e+00> : tensor<f32>
// CHECK-NEXT: %0 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<8x8xf32>
// CHECK-NEXT: %1 = stablehlo.add %arg0, %0 : tensor<8x8xf32>
// CHECK-NEXT: %2 = stablehlo.reshape %1 : (tensor<8x8xf32>) -> tensor<64xf32>
// CHECK-NEXT: %3 = stablehlo.tanh %2 : tensor<64xf32>
// CHECK-NEXT: return %3 : tensor<64xf32>

// CHECKED: @main on 1 device (
// CHECKED-NEXT: no communication
// CHECKED-NEXT: check passed

func.func @main(%x: tensor<8x8xf32>) -> tensor<64xf32> {
  %one = stablehlo.constant dense<1.0> : tensor<f32>
  %0 = stablehlo.broadcast_in_dim %one, dims = [] : (tensor<f32>) -> tensor<8x8xf32>
  %1 = stablehlo.add %x, %0 : tensor<8x8xf32>
  %2 = stablehlo.reshape %1 : (tensor<8x8xf32>) -> tensor<64xf32>
  %3 = stablehlo.tanh %2 : tensor<64xf32>
  return %3 : tensor<64xf32>
}
