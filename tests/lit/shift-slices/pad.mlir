// A slice of a padded tensor, made by a function of its own, is one padding that reads a halo.
//
// RUN: shard-opt %s --propagate --shift-slices | filecheck %s
// RUN: shard-run %s --check | filecheck %s --check-prefix=RUNS

shard.grid @g(shape = 4)

// CHECK-LABEL: func.func @main(
// CHECK: stablehlo.pad %arg0, {{.*}} low = [1, 0], high = [-1, 0]
// CHECK-NOT: func.func private

// RUNS: update_halo
// RUNS: total {{ *}}32{{$}}
// RUNS: check passed
func.func @main(%x: tensor<64x8xf32> {mesh.sharding = #mesh.shard<@g, [[0]]>})
    -> (tensor<64x8xf32> {mesh.sharding = #mesh.shard<@g, [[0]]>}) {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %p = func.call @padded(%x, %zero) : (tensor<64x8xf32>, tensor<f32>) -> tensor<66x8xf32>
  %s = stablehlo.slice %p [0:64, 0:8] : (tensor<66x8xf32>) -> tensor<64x8xf32>
  return %s : tensor<64x8xf32>
}
func.func private @padded(%x: tensor<64x8xf32>, %f: tensor<f32>) -> tensor<66x8xf32> {
  %p = stablehlo.pad %x, %f, low = [1, 0], high = [1, 0], interior = [0, 0] : (tensor<64x8xf32>, tensor<f32>) -> tensor<66x8xf32>
  return %p : tensor<66x8xf32>
}
