// A gather moves before the op that makes its operand, where less is gathered there.
//
// RUN: shard-opt %s --raise-gathers | filecheck %s

shard.grid @g(shape = 2)
shard.grid @h(shape = 2) {device_ids = [1, 0]}

// CHECK-LABEL: func.func @broadcast
// CHECK-NEXT: mesh.all_gather{{.*}}tensor<4xf32
// CHECK-NEXT: stablehlo.broadcast_in_dim
// CHECK-NEXT: return
func.func @broadcast(%x: tensor<4xf32, #mesh.shard<@g, [[0]]>>) -> tensor<4x64xf32> {
  %0 = stablehlo.broadcast_in_dim %x, dims = [0] : (tensor<4xf32, #mesh.shard<@g, [[0]]>>) -> tensor<4x64xf32, #mesh.shard<@g, [[0], []]>>
  %1 = "mesh.all_gather"(%0) {mesh_axis = [[0], []]} : (tensor<4x64xf32, #mesh.shard<@g, [[0], []]>>) -> tensor<4x64xf32>
  return %1 : tensor<4x64xf32>
}

// It stays where two operands would be gathered.
// CHECK-LABEL: func.func @two_operands
// CHECK-NEXT: arith.addf
// CHECK-NEXT: mesh.all_gather
func.func @two_operands(%x: tensor<4xf32, #mesh.shard<@g, [[0]]>>, %y: tensor<4xf32, #mesh.shard<@g, [[0]]>>) -> tensor<4xf32> {
  %0 = arith.addf %x, %y : tensor<4xf32, #mesh.shard<@g, [[0]]>>
  %1 = "mesh.all_gather"(%0) {mesh_axis = [[0]]} : (tensor<4xf32, #mesh.shard<@g, [[0]]>>) -> tensor<4xf32>
  return %1 : tensor<4xf32>
}

// A product that makes a small tensor of large ones is not repeated on all devices.
// CHECK-LABEL: func.func @product
// CHECK-NEXT: stablehlo.dot_general
// CHECK-NEXT: mesh.all_gather
func.func @product(%x: tensor<8x64xf32, #mesh.shard<@g, [[0], []]>>, %y: tensor<64x2xf32>) -> tensor<8x2xf32> {
  %0 = stablehlo.dot_general %x, %y, contracting_dims = [1] x [0] : (tensor<8x64xf32, #mesh.shard<@g, [[0], []]>>, tensor<64x2xf32>) -> tensor<8x2xf32, #mesh.shard<@g, [[0], []]>>
  %1 = "mesh.all_gather"(%0) {mesh_axis = [[0], []]} : (tensor<8x2xf32, #mesh.shard<@g, [[0], []]>>) -> tensor<8x2xf32>
  return %1 : tensor<8x2xf32>
}

// A reshape gathers as many bytes; before the broadcast behind it, the gather and the slice cancel.
// CHECK-LABEL: func.func @repeated
// CHECK-NOT: mesh.all_gather
// CHECK: return
func.func @repeated(%x: tensor<4x3xf32>) -> tensor<8x3xf32> {
  %0 = "mesh.local_split"(%x) {sharding = [[0], []]} : (tensor<4x3xf32>) -> tensor<4x3xf32, #mesh.shard<@g, [[0], []]>>
  %1 = stablehlo.broadcast_in_dim %0, dims = [0, 2] : (tensor<4x3xf32, #mesh.shard<@g, [[0], []]>>) -> tensor<4x2x3xf32, #mesh.shard<@g, [[0], [], []]>>
  %2 = stablehlo.reshape %1 : (tensor<4x2x3xf32, #mesh.shard<@g, [[0], [], []]>>) -> tensor<8x3xf32, #mesh.shard<@g, [[0], []]>>
  %3 = "mesh.all_gather"(%2) {mesh_axis = [[0], []]} : (tensor<8x3xf32, #mesh.shard<@g, [[0], []]>>) -> tensor<8x3xf32>
  return %3 : tensor<8x3xf32>
}

// What others read on shards is computed a second time, on the whole.
// CHECK-LABEL: func.func @both
// CHECK-NOT: mesh.all_gather
// CHECK: %[[SHARD:.*]] = stablehlo.reshape %{{.*}} -> tensor<8xf32, #mesh.shard
// CHECK-NEXT: %[[WHOLE:.*]] = stablehlo.reshape %{{.*}} -> tensor<8xf32>
// CHECK-NEXT: %[[ABS:.*]] = stablehlo.abs %[[WHOLE]]
// CHECK-NEXT: return %[[SHARD]], %[[ABS]]
func.func @both(%x: tensor<4x2xf32>) -> (tensor<8xf32, #mesh.shard<@g, [[0]]>>, tensor<8xf32>) {
  %0 = "mesh.local_split"(%x) {sharding = [[0], []]} : (tensor<4x2xf32>) -> tensor<4x2xf32, #mesh.shard<@g, [[0], []]>>
  %1 = stablehlo.reshape %0 : (tensor<4x2xf32, #mesh.shard<@g, [[0], []]>>) -> tensor<8xf32, #mesh.shard<@g, [[0]]>>
  %2 = stablehlo.abs %1 : tensor<8xf32, #mesh.shard<@g, [[0]]>>
  %3 = "mesh.all_gather"(%2) {mesh_axis = [[0]]} : (tensor<8xf32, #mesh.shard<@g, [[0]]>>) -> tensor<8xf32>
  return %1, %3 : tensor<8xf32, #mesh.shard<@g, [[0]]>>, tensor<8xf32>
}

// Drawn numbers are not drawn again: they would be others.
// CHECK-LABEL: func.func @drawn
// CHECK-COUNT-1: stablehlo.rng
// CHECK: mesh.all_gather
func.func @drawn(%lo: tensor<f32>, %hi: tensor<f32>) -> (tensor<8xf32, #mesh.shard<@g, [[0]]>>, tensor<8xf32>) {
  %n = stablehlo.constant dense<8> : tensor<1xi64>
  %0 = stablehlo.rng %lo, %hi, %n, distribution = UNIFORM : (tensor<f32>, tensor<f32>, tensor<1xi64>) -> tensor<8xf32, #mesh.shard<@g, [[0]]>>
  %1 = stablehlo.abs %0 : tensor<8xf32, #mesh.shard<@g, [[0]]>>
  %2 = "mesh.all_gather"(%1) {mesh_axis = [[0]]} : (tensor<8xf32, #mesh.shard<@g, [[0]]>>) -> tensor<8xf32>
  return %0, %2 : tensor<8xf32, #mesh.shard<@g, [[0]]>>, tensor<8xf32>
}

// Devices in another order: they make other shards, instead of sending those that they have.
// CHECK-LABEL: func.func @other_order
// CHECK: mesh.local_split{{.*}}tensor<4xf32, #mesh.shard<@h
// CHECK-NEXT: stablehlo.broadcast_in_dim{{.*}}tensor<4x64xf32, #mesh.shard<@h
// CHECK-NOT: mesh.collective_permute
// CHECK: return
func.func @other_order(%x: tensor<4xf32>) -> tensor<4x64xf32, #mesh.shard<@h, [[0], []]>> {
  %0 = "mesh.local_split"(%x) {sharding = [[0]]} : (tensor<4xf32>) -> tensor<4xf32, #mesh.shard<@g, [[0]]>>
  %1 = stablehlo.broadcast_in_dim %0, dims = [0] : (tensor<4xf32, #mesh.shard<@g, [[0]]>>) -> tensor<4x64xf32, #mesh.shard<@g, [[0], []]>>
  %2 = "mesh.collective_permute"(%1) {mesh_axis = [0], permutation = [1, 0]} : (tensor<4x64xf32, #mesh.shard<@g, [[0], []]>>) -> tensor<4x64xf32, #mesh.shard<@h, [[0], []]>>
  return %2 : tensor<4x64xf32, #mesh.shard<@h, [[0], []]>>
}
