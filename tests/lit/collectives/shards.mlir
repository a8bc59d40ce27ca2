// Work that every device repeats is done on shards.
//
// RUN: shard-opt %s --reduce-to-pieces | filecheck %s --check-prefix=PIECES
// RUN: shard-opt %s --compute-on-slices | filecheck %s --check-prefix=SLICES

shard.grid @g(shape = 2)

// PIECES-LABEL: func.func @reduced
// PIECES-NEXT: mesh.reduce_scatter %arg0
// PIECES-NEXT: math.exp
// PIECES-NEXT: mesh.all_gather
// SLICES-LABEL: func.func @reduced
// SLICES-NEXT: mesh.all_reduce %arg0
func.func @reduced(%x: tensor<4x4xf32, #mesh.shard<@g, [[], [], [0]]>>) -> tensor<4x4xf32> {
  %0 = "mesh.all_reduce"(%x) {mesh_axis = [0], reduction = "sum"} : (tensor<4x4xf32, #mesh.shard<@g, [[], [], [0]]>>) -> tensor<4x4xf32>
  %1 = math.exp %0 : tensor<4x4xf32>
  return %1 : tensor<4x4xf32>
}

// Nothing divides.
// PIECES-LABEL: func.func @odd
// PIECES-NEXT: mesh.all_reduce %arg0
func.func @odd(%x: tensor<3x5xf32, #mesh.shard<@g, [[], [], [0]]>>) -> tensor<3x5xf32> {
  %0 = "mesh.all_reduce"(%x) {mesh_axis = [0], reduction = "sum"} : (tensor<3x5xf32, #mesh.shard<@g, [[], [], [0]]>>) -> tensor<3x5xf32>
  %1 = math.exp %0 : tensor<3x5xf32>
  return %1 : tensor<3x5xf32>
}

// The op that is sliced, and the one before it, work on slices.
// SLICES-LABEL: func.func @sliced
// SLICES-NEXT: mesh.local_split %arg0
// SLICES-NEXT: math.exp
// SLICES-NEXT: math.log1p
// SLICES-NEXT: return
func.func @sliced(%x: tensor<4x4xf32>) -> tensor<4x4xf32, #mesh.shard<@g, [[0], []]>> {
  %0 = math.exp %x : tensor<4x4xf32>
  %1 = math.log1p %0 : tensor<4x4xf32>
  %2 = "mesh.local_split"(%1) {sharding = [[0], []]} : (tensor<4x4xf32>) -> tensor<4x4xf32, #mesh.shard<@g, [[0], []]>>
  return %2 : tensor<4x4xf32, #mesh.shard<@g, [[0], []]>>
}

// The whole is used as well.
// SLICES-LABEL: func.func @whole_too
// SLICES-NEXT: math.exp %arg0 : tensor<4x4xf32>
// SLICES-NEXT: mesh.local_split
func.func @whole_too(%x: tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32, #mesh.shard<@g, [[0], []]>>) {
  %0 = math.exp %x : tensor<4x4xf32>
  %1 = "mesh.local_split"(%0) {sharding = [[0], []]} : (tensor<4x4xf32>) -> tensor<4x4xf32, #mesh.shard<@g, [[0], []]>>
  return %0, %1 : tensor<4x4xf32>, tensor<4x4xf32, #mesh.shard<@g, [[0], []]>>
}

// A reversal makes the slice of another's elements.
// SLICES-LABEL: func.func @of_others
// SLICES-NEXT: stablehlo.reverse %arg0
// SLICES-NEXT: mesh.local_split
func.func @of_others(%x: tensor<4x4xf32>) -> tensor<4x4xf32, #mesh.shard<@g, [[0], []]>> {
  %0 = stablehlo.reverse %x, dims = [0] : tensor<4x4xf32>
  %1 = "mesh.local_split"(%0) {sharding = [[0], []]} : (tensor<4x4xf32>) -> tensor<4x4xf32, #mesh.shard<@g, [[0], []]>>
  return %1 : tensor<4x4xf32, #mesh.shard<@g, [[0], []]>>
}

shard.grid @h(shape = 2x2)

// What is reduced afterwards is computed on a slice, too.
// SLICES-LABEL: func.func @sum
// SLICES-NEXT: mesh.local_split %arg0
// SLICES-NEXT: stablehlo.dot_general
// SLICES-NEXT: return
func.func @sum(%x: tensor<4x8xf32, #mesh.shard<@h, [[], [1]]>>, %y: tensor<8x4xf32, #mesh.shard<@h, [[1], []]>>) -> tensor<4x4xf32, #mesh.shard<@h, [[0], [], [1]]>> {
  %0 = stablehlo.dot_general %x, %y, contracting_dims = [1] x [0] : (tensor<4x8xf32, #mesh.shard<@h, [[], [1]]>>, tensor<8x4xf32, #mesh.shard<@h, [[1], []]>>) -> tensor<4x4xf32, #mesh.shard<@h, [[], [], [1]]>>
  %1 = "mesh.local_split"(%0) {sharding = [[0], []]} : (tensor<4x4xf32, #mesh.shard<@h, [[], [], [1]]>>) -> tensor<4x4xf32, #mesh.shard<@h, [[0], [], [1]]>>
  return %1 : tensor<4x4xf32, #mesh.shard<@h, [[0], [], [1]]>>
}

// So is what reads a halo of another dimension.
// SLICES-LABEL: func.func @windows
// SLICES-NEXT: stablehlo.constant
// SLICES: mesh.local_split %arg0
// SLICES: mesh.update_halo
// SLICES: stablehlo.reduce_window
// SLICES-NOT: mesh.local_split
// SLICES: return
func.func @windows(%x: tensor<4x8xf32, #mesh.shard<@h, [[], [1]]>>) -> tensor<4x8xf32, #mesh.shard<@h, [[0], [1]]>> {
  %z = stablehlo.constant dense<0.0> : tensor<f32>
  %0 = "mesh.update_halo"(%x) : (tensor<4x8xf32, #mesh.shard<@h, [[], [1]]>>) -> tensor<4x8xf32, #mesh.shard<@h, [[], [1], {halo = [[], [1, 0]]}]>>
  %1 = "stablehlo.reduce_window"(%0, %z) <{padding = dense<[[0, 0], [1, 0]]> : tensor<2x2xi64>, window_dimensions = array<i64: 1, 2>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %s = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }) : (tensor<4x8xf32, #mesh.shard<@h, [[], [1], {halo = [[], [1, 0]]}]>>, tensor<f32>) -> tensor<4x8xf32, #mesh.shard<@h, [[], [1]]>>
  %2 = "mesh.local_split"(%1) {sharding = [[0], []]} : (tensor<4x8xf32, #mesh.shard<@h, [[], [1]]>>) -> tensor<4x8xf32, #mesh.shard<@h, [[0], [1]]>>
  return %2 : tensor<4x8xf32, #mesh.shard<@h, [[0], [1]]>>
}
