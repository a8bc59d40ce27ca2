// A halo is exchanged in a tensor with room for it, which holds what is past the ends; the padding
// of the op is in there.
//
// RUN: shard-opt %s --partition | filecheck %s

shard.grid @g(shape = 2x4)

// CHECK-LABEL: func.func @convolution
// CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<2x8x4x3xf32>
// CHECK: %[[ZERO:.*]] = arith.constant 0.000000e+00 : f32
// CHECK: %[[ZEROS:.*]] = linalg.fill ins(%[[ZERO]] : f32)
// CHECK: %[[ROOM:.*]] = tensor.insert_slice %[[X]] into %[[ZEROS]][0, 0, 0, 0] [2, 8, 4, 3] [1, 1, 1, 1] : tensor<2x8x4x3xf32> into tensor<2x9x4x3xf32>
// CHECK{LITERAL}: shard.update_halo %inserted_slice on @g split_axes = [[], [0]] halo_sizes = [0, 1] : tensor<2x9x4x3xf32>
// CHECK: tensor.insert_slice %{{.*}} into %{{.*}}[0, 0, 1, 0] [2, 9, 4, 3] [1, 1, 1, 1] : tensor<2x9x4x3xf32> into tensor<2x9x6x3xf32>
// CHECK: %[[WIDE:.*]] = shard.update_halo
// CHECK-SAME{LITERAL}: on @g split_axes = [[], [], [1]] halo_sizes = [1, 1] : tensor<2x9x6x3xf32>
// CHECK: stablehlo.convolution(%[[WIDE]], %{{.*}}) {{.*}} window = {stride = [2, 1], pad = {{\[\[}}0, 0], [0, 0]]}
func.func @convolution(%x: tensor<2x16x16x3xf32, #mesh.shard<@g, [[], [0], [1]]>>,
    %w: tensor<3x3x3x5xf32>) -> tensor<2x8x16x5xf32, #mesh.shard<@g, [[], [0], [1]]>>
    attributes {mesh.form = "distributed"} {
  %h = "mesh.update_halo"(%x) : (tensor<2x16x16x3xf32, #mesh.shard<@g, [[], [0], [1]]>>)
    -> tensor<2x16x16x3xf32, #mesh.shard<@g, [[], [0], [1], [], {halo = [[], [0, 1], [1, 1], []]}]>>
  %0 = "stablehlo.convolution"(%h, %w) <{batch_group_count = 1 : i64,
      dimension_numbers = #stablehlo.conv<[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]>,
      feature_group_count = 1 : i64, padding = dense<[[0, 1], [1, 1]]> : tensor<2x2xi64>,
      window_strides = array<i64: 2, 1>}>
    : (tensor<2x16x16x3xf32, #mesh.shard<@g, [[], [0], [1], [], {halo = [[], [0, 1], [1, 1], []]}]>>,
       tensor<3x3x3x5xf32>) -> tensor<2x8x16x5xf32, #mesh.shard<@g, [[], [0], [1]]>>
  return %0 : tensor<2x8x16x5xf32, #mesh.shard<@g, [[], [0], [1]]>>
}

// CHECK-LABEL: func.func @less
// CHECK: arith.constant 0xFF800000 : f32
// CHECK: %[[WIDE:.*]] = shard.update_halo
// CHECK: tensor.extract_slice %[[WIDE]][1, 0] [4, 8] [1, 1] : tensor<7x8xf32> to tensor<4x8xf32>
func.func @less(%x: tensor<8x8xf32, #mesh.shard<@g, [[0]]>>)
    -> tensor<8x8xf32, #mesh.shard<@g, [[0]]>> attributes {mesh.form = "distributed"} {
  %h = "mesh.update_halo"(%x) : (tensor<8x8xf32, #mesh.shard<@g, [[0]]>>)
    -> tensor<8x8xf32, #mesh.shard<@g, [[0], [], {fill = "max", halo = [[1, 2], []]}]>>
  %0 = "mesh.update_halo"(%h)
    : (tensor<8x8xf32, #mesh.shard<@g, [[0], [], {fill = "max", halo = [[1, 2], []]}]>>)
    -> tensor<8x8xf32, #mesh.shard<@g, [[0]]>>
  return %0 : tensor<8x8xf32, #mesh.shard<@g, [[0]]>>
}

// A slice of a whole tensor takes its halo along, which at the ends is the fill.
// CHECK-LABEL: func.func @sliced
// CHECK: arith.constant 0.000000e+00 : f32
// CHECK: %[[AROUND:.*]] = tensor.insert_slice %arg0 into %{{.*}}[1, 0] [8, 8] [1, 1] : tensor<8x8xf32> into tensor<11x8xf32>
// CHECK: arith.constant dense<[0, 4]> : tensor<2xi64>
// CHECK: tensor.extract_slice %[[AROUND]][%{{.*}}, 0] [7, 8] [1, 1] : tensor<11x8xf32> to tensor<7x8xf32>
// CHECK-NOT: shard.update_halo
func.func @sliced(%x: tensor<8x8xf32>) -> tensor<8x8xf32, #mesh.shard<@g, [[0], [], {halo = [[1, 2], []]}]>>
    attributes {mesh.form = "distributed"} {
  %0 = "mesh.local_split"(%x) {sharding = [[0], []]} : (tensor<8x8xf32>) -> tensor<8x8xf32, #mesh.shard<@g, [[0], [], {halo = [[1, 2], []]}]>>
  return %0 : tensor<8x8xf32, #mesh.shard<@g, [[0], [], {halo = [[1, 2], []]}]>>
}
