// Where not all devices of a group may reach a collective, they are asked before it, and at the end,
// which one they are at. Collectives that differ in their operands alone may meet.
//
// RUN: shard-opt %s --check-meetings --split-input-file | filecheck %s
// RUN: shard-opt %s --check-meetings --lower --split-input-file | filecheck %s --check-prefix=LOWERED

// CHECK-LABEL: func.func @main
// CHECK: scf.if
// CHECK: dense<[1, -1]> : tensor<2xindex>
// CHECK: shard.all_reduce {{.*}} grid_axes = [1] reduction = max : tensor<2xindex>
// CHECK: cf.assert {{.*}}meetings.mlir:37:10: error: 'shard.all_reduce' op is reached while other devices of the group are at the end of the program: all must reach the same collectives in one order"
// CHECK: cf.assert {{.*}} 'shard.all_reduce' op is reached while other devices of the group are at 'shard.all_gather', {{.*}}meetings.mlir:42:10:
// CHECK: shard.all_reduce %arg0
// CHECK: dense<[1, -1]>
// CHECK: shard.all_reduce
// CHECK: shard.all_reduce
// CHECK: else
// CHECK: dense<[2, -2]>
// CHECK: shard.all_gather
// CHECK: dense<0> : tensor<2xindex>
// CHECK: cf.assert {{.*}} error: the end of the program is reached while other devices of the group are at 'shard.all_reduce'
// CHECK: return

// The groups of another axis are not asked: all of their devices take one branch.
// CHECK-NOT: grid_axes = [0] reduction = max

// LOWERED: cf.assert
shard.grid @g(shape = 2x2)
func.func @main(%x: tensor<4xf32> {mesh.argument = tensor<16xf32, #mesh.shard<@g, [[0, 1]]>>})
    -> (tensor<4xf32> {mesh.result = tensor<16xf32, #mesh.shard<@g, [[0, 1]]>>})
    attributes {mesh.form = "local"} {
  %i = shard.process_multi_index on @g axes = [1] : index
  %c0 = arith.constant 0 : index
  %is_first = arith.cmpi eq, %i, %c0 : index
  %0 = shard.all_reduce %x on @g grid_axes = [0] : tensor<4xf32> -> tensor<4xf32>
  %r = scf.if %is_first -> tensor<4xf32> {
    %a = shard.all_reduce %x on @g grid_axes = [1] : tensor<4xf32> -> tensor<4xf32>
    %b = shard.all_reduce %0 on @g grid_axes = [1] : tensor<4xf32> -> tensor<4xf32>
    %c = arith.addf %a, %b : tensor<4xf32>
    scf.yield %c : tensor<4xf32>
  } else {
    %d = shard.all_gather %x on @g grid_axes = [1] gather_axis = 0 : tensor<4xf32> -> tensor<8xf32>
    %e = tensor.extract_slice %d[2] [4] [1] : tensor<8xf32> to tensor<4xf32>
    scf.yield %e : tensor<4xf32>
  }
  return %r : tensor<4xf32>
}

// -----

// All devices of the groups along axis 0 take one branch.
// CHECK-LABEL: func.func @decided_alike
// CHECK-NOT: cf.assert
// LOWERED-LABEL: func.func @decided_alike
// LOWERED-NOT: cf.assert
shard.grid @g(shape = 2x2)
func.func @decided_alike(%x: tensor<4xf32> {mesh.argument = tensor<16xf32, #mesh.shard<@g, [[0, 1]]>>})
    -> (tensor<4xf32> {mesh.result = tensor<16xf32, #mesh.shard<@g, [[0, 1]]>>})
    attributes {mesh.form = "local"} {
  %i = shard.process_multi_index on @g axes = [1] : index
  %c0 = arith.constant 0 : index
  %is_first = arith.cmpi eq, %i, %c0 : index
  %r = scf.if %is_first -> tensor<4xf32> {
    %a = shard.all_reduce %x on @g grid_axes = [0] : tensor<4xf32> -> tensor<4xf32>
    scf.yield %a : tensor<4xf32>
  } else {
    scf.yield %x : tensor<4xf32>
  }
  return %r : tensor<4xf32>
}
