// What can work on shards does, and its result is gathered, where that is no larger.
//
// RUN: shard-opt %s --sink-gathers | filecheck %s

shard.grid @g(shape = 2)

// CHECK-LABEL: func.func @elementwise
// CHECK-NEXT: mesh.local_split %arg1
// CHECK-NEXT: arith.maximumf
// CHECK-NEXT: mesh.all_gather
func.func @elementwise(%x: tensor<4x4xf32, #mesh.shard<@g, [[0], []]>>, %y: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %0 = "mesh.all_gather"(%x) {mesh_axis = [[0], []]} : (tensor<4x4xf32, #mesh.shard<@g, [[0], []]>>) -> tensor<4x4xf32>
  %1 = arith.maximumf %0, %y : tensor<4x4xf32>
  return %1 : tensor<4x4xf32>
}

// A product makes less of it; the rows of the result are gathered.
// CHECK-LABEL: func.func @product
// CHECK-NEXT: stablehlo.dot_general %arg0, %arg1
// CHECK-NEXT: mesh.all_gather{{.*}}tensor<8x2xf32
func.func @product(%x: tensor<8x64xf32, #mesh.shard<@g, [[0], []]>>, %y: tensor<64x2xf32>) -> tensor<8x2xf32> {
  %0 = "mesh.all_gather"(%x) {mesh_axis = [[0], []]} : (tensor<8x64xf32, #mesh.shard<@g, [[0], []]>>) -> tensor<8x64xf32>
  %1 = stablehlo.dot_general %0, %y, contracting_dims = [1] x [0] : (tensor<8x64xf32>, tensor<64x2xf32>) -> tensor<8x2xf32>
  return %1 : tensor<8x2xf32>
}

// What is summed up along the shards is a small partial sum.
// CHECK-LABEL: func.func @summed
// CHECK: stablehlo.reduce(%arg0
// CHECK-NEXT: mesh.all_reduce{{.*}}tensor<4xf32
func.func @summed(%x: tensor<64x4xf32, #mesh.shard<@g, [[0], []]>>) -> tensor<4xf32> {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %0 = "mesh.all_gather"(%x) {mesh_axis = [[0], []]} : (tensor<64x4xf32, #mesh.shard<@g, [[0], []]>>) -> tensor<64x4xf32>
  %1 = stablehlo.reduce(%0 init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<64x4xf32>, tensor<f32>) -> tensor<4xf32>
  return %1 : tensor<4xf32>
}

// Past one op the data is wider, past two it is smaller again.
// CHECK-LABEL: func.func @over_a_hill
// CHECK-NEXT: arith.extf %arg0
// CHECK-NEXT: arith.fptosi
// CHECK-NEXT: mesh.all_gather{{.*}}xi8
func.func @over_a_hill(%x: tensor<4x4xf16, #mesh.shard<@g, [[0], []]>>) -> tensor<4x4xi8> {
  %0 = "mesh.all_gather"(%x) {mesh_axis = [[0], []]} : (tensor<4x4xf16, #mesh.shard<@g, [[0], []]>>) -> tensor<4x4xf16>
  %1 = arith.extf %0 : tensor<4x4xf16> to tensor<4x4xf32>
  %2 = arith.fptosi %1 : tensor<4x4xf32> to tensor<4x4xi8>
  return %2 : tensor<4x4xi8>
}

// The result is wider than what is gathered: the gather stays where it is.
// CHECK-LABEL: func.func @widened
// CHECK-NEXT: %[[WHOLE:.*]] = mesh.all_gather
// CHECK-NEXT: arith.extf %[[WHOLE]]
func.func @widened(%x: tensor<4x4xf16, #mesh.shard<@g, [[0], []]>>) -> tensor<4x4xf32> {
  %0 = "mesh.all_gather"(%x) {mesh_axis = [[0], []]} : (tensor<4x4xf16, #mesh.shard<@g, [[0], []]>>) -> tensor<4x4xf16>
  %1 = arith.extf %0 : tensor<4x4xf16> to tensor<4x4xf32>
  return %1 : tensor<4x4xf32>
}

// A sort needs the whole dimension: not moved past it.
// CHECK-LABEL: func.func @needs_all
// CHECK-NEXT: mesh.all_gather %arg0
// CHECK-NEXT: stablehlo.sort
func.func @needs_all(%x: tensor<8xf32, #mesh.shard<@g, [[0]]>>) -> tensor<8xf32> {
  %0 = "mesh.all_gather"(%x) {mesh_axis = [[0]]} : (tensor<8xf32, #mesh.shard<@g, [[0]]>>) -> tensor<8xf32>
  %1 = "stablehlo.sort"(%0) <{dimension = 0 : i64}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %less = stablehlo.compare LT, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %less : tensor<i1>
  }) : (tensor<8xf32>) -> tensor<8xf32>
  return %1 : tensor<8xf32>
}

// Several ops use it, and what they make: all of them work on shards.
// CHECK-LABEL: func.func @used_by_several
// CHECK-NEXT: stablehlo.multiply %arg0, %arg0
// CHECK-NEXT: stablehlo.add %arg0
// CHECK-NEXT: mesh.all_gather
// CHECK-NEXT: return
func.func @used_by_several(%x: tensor<4x4xf32, #mesh.shard<@g, [[0], []]>>) -> tensor<4x4xf32> {
  %0 = "mesh.all_gather"(%x) {mesh_axis = [[0], []]} : (tensor<4x4xf32, #mesh.shard<@g, [[0], []]>>) -> tensor<4x4xf32>
  %1 = stablehlo.multiply %0, %0 : tensor<4x4xf32>
  %2 = stablehlo.add %0, %1 : tensor<4x4xf32>
  return %2 : tensor<4x4xf32>
}

// To exchange the weights and to add up partial results moves as much as the gather: it stays.
// CHECK-LABEL: func.func @tie
// CHECK-NEXT: mesh.all_gather %arg0
// CHECK-NEXT: stablehlo.dot_general
// CHECK-NEXT: return
func.func @tie(%x: tensor<8x16xf32, #mesh.shard<@g, [[], [0]]>>, %w: tensor<16x8xf32, #mesh.shard<@g, [[], [0]]>>) -> tensor<8x8xf32, #mesh.shard<@g, [[], [0]]>> {
  %0 = "mesh.all_gather"(%x) {mesh_axis = [[], [0]]} : (tensor<8x16xf32, #mesh.shard<@g, [[], [0]]>>) -> tensor<8x16xf32>
  %1 = stablehlo.dot_general %0, %w, contracting_dims = [1] x [0] : (tensor<8x16xf32>, tensor<16x8xf32, #mesh.shard<@g, [[], [0]]>>) -> tensor<8x8xf32, #mesh.shard<@g, [[], [0]]>>
  return %1 : tensor<8x8xf32, #mesh.shard<@g, [[], [0]]>>
}
