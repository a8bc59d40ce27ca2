// Halos that a user asks for: given and returned, dropped, and computed where an op reads them.
//
// RUN: shard-opt %s --propagate --materialize --optimize-collectives | filecheck %s
// RUN: shard-opt %s --spmd | filecheck %s --check-prefix=LOCAL

shard.grid @g(shape = 4)

// A device is given its halo, and an op that does not read it gets the shard alone.
// CHECK-LABEL: func.func @argument
// CHECK: %[[OWN:.*]] = mesh.update_halo %arg0
// CHECK-NEXT: math.exp %[[OWN]] : tensor<8x8xf32, #mesh.shard<@g, {{\[\[}}0], []]>>
// LOCAL-LABEL: func.func @argument
// LOCAL-SAME: (%arg0: tensor<5x8xf32> {mesh.argument = tensor<8x8xf32, #mesh.shard<@g, {{\[\[}}0], [], {halo = {{\[\[}}1, 2], []]}]>>})
// LOCAL-NEXT: tensor.extract_slice %arg0[1, 0] [2, 8] [1, 1]
// LOCAL-NEXT: math.exp
func.func @argument(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %h = shard.sharding @g split_axes = [[0]] halo_sizes = [1, 2] : !shard.sharding
  %0 = shard.shard %x to %h : tensor<8x8xf32>
  %1 = math.exp %0 : tensor<8x8xf32>
  return %1 : tensor<8x8xf32>
}

// A value that is returned with a halo has one; sizes may be constants.
// CHECK-LABEL: func.func @returned
// CHECK-SAME: -> tensor<8x8xf32, #mesh.shard<@g, {{\[\[}}0], [], {halo = {{\[\[}}1, 2], []]}]>>
// CHECK: math.exp
// CHECK-NEXT: mesh.update_halo
// LOCAL-LABEL: func.func @returned
// LOCAL-SAME: -> (tensor<5x8xf32> {mesh.result =
func.func @returned(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %c1 = arith.constant 1 : i64
  %h = shard.sharding @g split_axes = [[0]] halo_sizes = [%c1, 2] : !shard.sharding
  %0 = math.exp %x : tensor<8x8xf32>
  %1 = shard.shard %0 to %h : tensor<8x8xf32>
  return %1 : tensor<8x8xf32>
}

// Nothing reads the halo, so nothing fills it.
// CHECK-LABEL: func.func @not_read
// CHECK-NEXT: math.exp
// CHECK-NEXT: math.tanh
// CHECK-NEXT: return
func.func @not_read(%x: tensor<8xf32>) -> tensor<8xf32> {
  %s = shard.sharding @g split_axes = [[0]] : !shard.sharding
  %h = shard.sharding @g split_axes = [[0]] halo_sizes = [1, 1] : !shard.sharding
  %0 = shard.shard %x to %s : tensor<8xf32>
  %1 = math.exp %0 : tensor<8xf32>
  %2 = shard.shard %1 to %h : tensor<8xf32>
  %3 = shard.shard %2 to %h annotate_for_users : tensor<8xf32>
  %4 = math.tanh %3 : tensor<8xf32>
  return %4 : tensor<8xf32>
}

// A later annotation of a value may add halos.
// CHECK-LABEL: func.func @added_later
// CHECK-NEXT: mesh.update_halo %arg0
// CHECK-NEXT: return
func.func @added_later(%x: tensor<8xf32>) -> tensor<8xf32> {
  %s = shard.sharding @g split_axes = [[0]] : !shard.sharding
  %h = shard.sharding @g split_axes = [[0]] halo_sizes = [1, 1] : !shard.sharding
  %0 = shard.shard %x to %s : tensor<8xf32>
  %1 = shard.shard %0 to %h : tensor<8xf32>
  return %1 : tensor<8xf32>
}

// A sum counts each element once.
// CHECK-LABEL: func.func @summed
// CHECK: %[[OWN:.*]] = mesh.update_halo %arg0
// CHECK: stablehlo.reduce(%[[OWN]]
// LOCAL-LABEL: func.func @summed
// LOCAL: %[[OWN:.*]] = tensor.extract_slice %arg0[1] [2] [1]
// LOCAL: stablehlo.reduce(%[[OWN]]
func.func @summed(%x: tensor<8xf32>) -> tensor<f32> {
  %h = shard.sharding @g split_axes = [[0]] halo_sizes = [1, 1] : !shard.sharding
  %0 = shard.shard %x to %h : tensor<8xf32>
  %z = stablehlo.constant dense<0.0> : tensor<f32>
  %1 = stablehlo.reduce(%0 init: %z) applies stablehlo.add across dimensions = [0] : (tensor<8xf32>, tensor<f32>) -> tensor<f32>
  return %1 : tensor<f32>
}

// An elementwise op computes what the windows after it read of the neighbours' shards. Outside of
// the tensor they read zeros, not their exponentials.
// CHECK-LABEL: func.func @read_by_windows
// CHECK-NEXT: %[[LESS:.*]] = mesh.update_halo %arg0 : {{.*}} -> {{.*}}halo = {{\[\[}}1, 1]]
// CHECK-NEXT: %[[WIDE:.*]] = math.exp %[[LESS]] : {{.*}}halo = {{\[\[}}1, 1]]
// CHECK: "stablehlo.reduce_window"(%[[WIDE]]
// LOCAL-LABEL: func.func @read_by_windows
// LOCAL-NOT: shard.update_halo
// LOCAL: %[[WIDE:.*]] = math.exp %{{.*}} : tensor<4xf32>
// LOCAL: arith.constant dense<[1, 0, 0, 0]>
// LOCAL: arith.constant dense<[4, 4, 4, 3]>
// LOCAL: %[[FILLED:.*]] = linalg.generic {{.*}} ins(%[[WIDE]]
// LOCAL: "stablehlo.reduce_window"(%[[FILLED]]
// LOCAL-NOT: shard.update_halo
// LOCAL: return
func.func @read_by_windows(%x: tensor<8xf32>) -> tensor<8xf32> {
  %h = shard.sharding @g split_axes = [[0]] halo_sizes = [1, 2] : !shard.sharding
  %0 = shard.shard %x to %h : tensor<8xf32>
  %1 = math.exp %0 : tensor<8xf32>
  %z = stablehlo.constant dense<0.0> : tensor<f32>
  %2 = "stablehlo.reduce_window"(%1, %z) <{window_dimensions = array<i64: 3>, padding = dense<1> : tensor<1x2xi64>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %m = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %m : tensor<f32>
  }) : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
  return %2 : tensor<8xf32>
}
