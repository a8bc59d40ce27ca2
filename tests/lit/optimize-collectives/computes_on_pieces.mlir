// Elementwise work behind an all-reduce or a gather is done on shards, if no more bytes move.
//
// RUN: shard-opt %s --optimize-collectives | filecheck %s

shard.grid @g(shape = 2)

// CHECK-LABEL: func.func @reduced
// CHECK-NEXT: %[[PIECE:.*]] = mesh.reduce_scatter %arg0 {mesh_axis = [0], reduction = "sum", tensor_axis = 0 : i64}
// CHECK-NEXT: %[[EXP:.*]] = math.exp %[[PIECE]]
// CHECK-NEXT: %[[LOG:.*]] = math.log1p %[[EXP]]
// CHECK-NEXT: mesh.all_gather %[[LOG]]
func.func @reduced(%x: tensor<4x4xf32, #mesh.shard<@g, [[], [], [0]]>>) -> tensor<4x4xf32> {
  %0 = "mesh.all_reduce"(%x) {mesh_axis = [0], reduction = "sum"}
      : (tensor<4x4xf32, #mesh.shard<@g, [[], [], [0]]>>) -> tensor<4x4xf32>
  %1 = math.exp %0 : tensor<4x4xf32>
  %2 = math.log1p %1 : tensor<4x4xf32>
  return %2 : tensor<4x4xf32>
}

// The result is wider than what is gathered: the gather stays where it is.
// CHECK-LABEL: func.func @widened
// CHECK-NEXT: %[[WHOLE:.*]] = mesh.all_gather
// CHECK-NEXT: arith.extf %[[WHOLE]]
func.func @widened(%x: tensor<4x4xf16, #mesh.shard<@g, [[0]]>>) -> tensor<4x4xf32> {
  %0 = "mesh.all_gather"(%x) {mesh_axis = [[0], []]}
      : (tensor<4x4xf16, #mesh.shard<@g, [[0]]>>) -> tensor<4x4xf16>
  %1 = arith.extf %0 : tensor<4x4xf16> to tensor<4x4xf32>
  return %1 : tensor<4x4xf32>
}

// Nothing divides: the all-reduce stays.
// CHECK-LABEL: func.func @odd
// CHECK-NEXT: mesh.all_reduce
func.func @odd(%x: tensor<3x5xf32, #mesh.shard<@g, [[], [], [0]]>>) -> tensor<3x5xf32> {
  %0 = "mesh.all_reduce"(%x) {mesh_axis = [0], reduction = "sum"}
      : (tensor<3x5xf32, #mesh.shard<@g, [[], [], [0]]>>) -> tensor<3x5xf32>
  %1 = math.exp %0 : tensor<3x5xf32>
  return %1 : tensor<3x5xf32>
}
