// Where bytes are the same and few elements more are computed, one all-reduce is better than two
// collectives.
//
// RUN: shard-opt %s --join-pieces | filecheck %s

shard.grid @g(shape = 2)

// CHECK-LABEL: func.func @joined
// CHECK-NEXT: mesh.all_reduce %arg0
// CHECK-NEXT: math.exp
// CHECK-NEXT: math.log1p
// CHECK-NEXT: return
func.func @joined(%x: tensor<4x4xf32, #mesh.shard<@g, [[], [], [0]]>>) -> tensor<4x4xf32> {
  %0 = "mesh.reduce_scatter"(%x) {mesh_axis = [0], reduction = "sum", tensor_axis = 0 : i64} : (tensor<4x4xf32, #mesh.shard<@g, [[], [], [0]]>>) -> tensor<4x4xf32, #mesh.shard<@g, [[0], []]>>
  %1 = math.exp %0 : tensor<4x4xf32, #mesh.shard<@g, [[0], []]>>
  %2 = math.log1p %1 : tensor<4x4xf32, #mesh.shard<@g, [[0], []]>>
  %3 = "mesh.all_gather"(%2) {mesh_axis = [[0], []]} : (tensor<4x4xf32, #mesh.shard<@g, [[0], []]>>) -> tensor<4x4xf32>
  return %3 : tensor<4x4xf32>
}

// What is not gathered stays.
// CHECK-LABEL: func.func @split
// CHECK-NEXT: mesh.reduce_scatter %arg0
func.func @split(%x: tensor<4x4xf32, #mesh.shard<@g, [[], [], [0]]>>) -> tensor<4x4xf32, #mesh.shard<@g, [[0], []]>> {
  %0 = "mesh.reduce_scatter"(%x) {mesh_axis = [0], reduction = "sum", tensor_axis = 0 : i64} : (tensor<4x4xf32, #mesh.shard<@g, [[], [], [0]]>>) -> tensor<4x4xf32, #mesh.shard<@g, [[0], []]>>
  %1 = math.exp %0 : tensor<4x4xf32, #mesh.shard<@g, [[0], []]>>
  return %1 : tensor<4x4xf32, #mesh.shard<@g, [[0], []]>>
}

// A million elements take longer than a collective needs to begin.
// CHECK-LABEL: func.func @large
// CHECK-NEXT: mesh.reduce_scatter %arg0
// CHECK-NEXT: math.exp
// CHECK-NEXT: mesh.all_gather
func.func @large(%x: tensor<1024x1024xf32, #mesh.shard<@g, [[], [], [0]]>>) -> tensor<1024x1024xf32> {
  %0 = "mesh.reduce_scatter"(%x) {mesh_axis = [0], reduction = "sum", tensor_axis = 0 : i64} : (tensor<1024x1024xf32, #mesh.shard<@g, [[], [], [0]]>>) -> tensor<1024x1024xf32, #mesh.shard<@g, [[0], []]>>
  %1 = math.exp %0 : tensor<1024x1024xf32, #mesh.shard<@g, [[0], []]>>
  %2 = "mesh.all_gather"(%1) {mesh_axis = [[0], []]} : (tensor<1024x1024xf32, #mesh.shard<@g, [[0], []]>>) -> tensor<1024x1024xf32>
  return %2 : tensor<1024x1024xf32>
}

// More bytes would move: half of the result is gathered.
// CHECK-LABEL: func.func @narrower
// CHECK-NEXT: mesh.reduce_scatter %arg0
func.func @narrower(%x: tensor<4x4xf32, #mesh.shard<@g, [[], [], [0]]>>) -> tensor<4x4xbf16> {
  %0 = "mesh.reduce_scatter"(%x) {mesh_axis = [0], reduction = "sum", tensor_axis = 0 : i64} : (tensor<4x4xf32, #mesh.shard<@g, [[], [], [0]]>>) -> tensor<4x4xf32, #mesh.shard<@g, [[0], []]>>
  %1 = arith.truncf %0 : tensor<4x4xf32, #mesh.shard<@g, [[0], []]>> to tensor<4x4xbf16, #mesh.shard<@g, [[0], []]>>
  %2 = "mesh.all_gather"(%1) {mesh_axis = [[0], []]} : (tensor<4x4xbf16, #mesh.shard<@g, [[0], []]>>) -> tensor<4x4xbf16>
  return %2 : tensor<4x4xbf16>
}
