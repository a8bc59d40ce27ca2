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
