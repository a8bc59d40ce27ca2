// Windows go over split dimensions: each device gets what they read of its neighbours' shards.
//
// RUN: shard-opt %s --propagate --materialize | filecheck %s

shard.grid @g(shape = 2x4)

// CHECK-LABEL: func.func @convolution
// CHECK{LITERAL}: %0 = mesh.update_halo %arg0 : tensor<2x16x16x3xf32, #mesh.shard<@g, [[], [0], [1], []]>> -> tensor<2x16x16x3xf32, #mesh.shard<@g, [[], [0], [1], [], {halo = [[], [0, 1], [], []]}]>>
// CHECK: %1 = mesh.update_halo %0
// CHECK-SAME{LITERAL}: -> tensor<2x16x16x3xf32, #mesh.shard<@g, [[], [0], [1], [], {halo = [[], [0, 1], [1, 1], []]}]>>
// CHECK: stablehlo.convolution(%1, %arg1)
// CHECK-NEXT: return
func.func @convolution(
    %x: tensor<2x16x16x3xf32> {mesh.sharding = #mesh.shard<@g, [[], [0], [1]]>},
    %w: tensor<3x3x3x5xf32>) -> tensor<2x8x16x5xf32> {
  %0 = "stablehlo.convolution"(%x, %w) <{batch_group_count = 1 : i64,
      dimension_numbers = #stablehlo.conv<[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]>,
      feature_group_count = 1 : i64, padding = dense<[[0, 1], [1, 1]]> : tensor<2x2xi64>,
      window_strides = array<i64: 2, 1>}>
    : (tensor<2x16x16x3xf32>, tensor<3x3x3x5xf32>) -> tensor<2x8x16x5xf32>
  return %0 : tensor<2x8x16x5xf32>
}

// The maximum of a window that goes past the end is that of the rest.
//
// CHECK-LABEL: func.func @maximum
// CHECK: mesh.update_halo %arg0
// CHECK-SAME{LITERAL}: #mesh.shard<@g, [[], [1, 0], {fill = "max", halo = [[], [1, 1]]}]>>
// CHECK-NEXT: "stablehlo.reduce_window"
func.func @maximum(%x: tensor<2x32xf32> {mesh.sharding = #mesh.shard<@g, [[], [1, 0]]>})
    -> tensor<2x32xf32> {
  %i = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %0 = "stablehlo.reduce_window"(%x, %i) <{window_dimensions = array<i64: 1, 3>,
      padding = dense<[[0, 0], [1, 1]]> : tensor<2x2xi64>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %m = stablehlo.maximum %a, %b : tensor<f32>
    stablehlo.return %m : tensor<f32>
  }) : (tensor<2x32xf32>, tensor<f32>) -> tensor<2x32xf32>
  return %0 : tensor<2x32xf32>
}

// Windows side by side read nothing of the neighbours.
//
// CHECK-LABEL: func.func @side_by_side
// CHECK-NOT: "mesh.
// CHECK: return
func.func @side_by_side(%x: tensor<2x32xf32> {mesh.sharding = #mesh.shard<@g, [[], [1]]>})
    -> tensor<2x16xf32> {
  %i = stablehlo.constant dense<3.0> : tensor<f32>
  %0 = "stablehlo.reduce_window"(%x, %i) <{window_dimensions = array<i64: 1, 2>,
      window_strides = array<i64: 1, 2>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %m = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %m : tensor<f32>
  }) : (tensor<2x32xf32>, tensor<f32>) -> tensor<2x16xf32>
  return %0 : tensor<2x16xf32>
}

// A sum that starts from something finds it past the ends, too: no halo holds that.
//
// CHECK-LABEL: func.func @sum_that_starts_from_something
// CHECK-NOT: mesh.update_halo
// CHECK: mesh.all_gather %arg0
func.func @sum_that_starts_from_something(
    %x: tensor<2x32xf32> {mesh.sharding = #mesh.shard<@g, [[], [1]]>}, %i: tensor<f32>)
    -> tensor<2x32xf32> {
  %0 = "stablehlo.reduce_window"(%x, %i) <{window_dimensions = array<i64: 1, 3>,
      padding = dense<[[0, 0], [1, 1]]> : tensor<2x2xi64>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %m = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %m : tensor<f32>
  }) : (tensor<2x32xf32>, tensor<f32>) -> tensor<2x32xf32>
  return %0 : tensor<2x32xf32>
}
