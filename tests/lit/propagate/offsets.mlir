// Shards keep their offsets, forward and backward, where ops can work on them.
//
// RUN: shard-opt %s --propagate --import  | filecheck %s
// RUN: shard-opt %s --propagate --materialize --import  | filecheck %s --check-prefix=MOVED
// RUN: shard-opt %s --propagate=traversal=forward-backward --import  | filecheck %s --check-prefix=UPSTREAM

shard.grid @g(shape = 4)

// CHECK-LABEL: func.func @elementwise
// CHECK-SAME: -> (tensor<4x14xf32> {mesh.sharding = #mesh.shard<@g, {{\[\[}}], [0], {offsets = {{\[\[}}], [0, 2, 5, 9, 14]]}]>})
// CHECK: math.exp{{.*}}offsets = {{\[\[}}], [0, 2, 5, 9, 14]]
// CHECK: arith.addf{{.*}}offsets = {{\[\[}}], [0, 2, 5, 9, 14]]
// UPSTREAM-LABEL: func.func @elementwise
// UPSTREAM: arith.addf{{.*}}offsets = {{\[\[}}], [0, 2, 5, 9, 14]]
// MOVED-LABEL: func.func @elementwise
// MOVED-NEXT: math.exp %arg0
// MOVED-NEXT: arith.addf
// MOVED-NEXT: return
func.func @elementwise(%x: tensor<4x14xf32>) -> tensor<4x14xf32> {
  %s = shard.sharding @g split_axes = [[], [0]] sharded_dims_offsets = [0, 2, 5, 9, 14] : !shard.sharding
  %0 = shard.shard %x to %s : tensor<4x14xf32>
  %1 = math.exp %0 : tensor<4x14xf32>
  %2 = arith.addf %1, %1 : tensor<4x14xf32>
  return %2 : tensor<4x14xf32>
}

// CHECK-LABEL: func.func @backward
// CHECK-SAME: (%arg0: tensor<14xf32> {mesh.sharding = #mesh.shard<@g, {{\[\[}}0], {offsets = {{\[\[}}0, 2, 5, 9, 14]]}]>})
// MOVED-LABEL: func.func @backward
// MOVED-NEXT: math.exp %arg0
// MOVED-NEXT: return
func.func @backward(%x: tensor<14xf32>) -> tensor<14xf32> {
  %s = shard.sharding @g split_axes = [[0]] sharded_dims_offsets = [0, 2, 5, 9, 14] : !shard.sharding
  %0 = math.exp %x : tensor<14xf32>
  %1 = shard.shard %0 to %s : tensor<14xf32>
  return %1 : tensor<14xf32>
}

// CHECK-LABEL: func.func @other_dimensions
// CHECK: stablehlo.dot_general{{.*}}offsets = {{\[\[}}0, 2, 5, 9, 14], []]
// CHECK: stablehlo.reduce{{.*}}offsets = {{\[\[}}0, 2, 5, 9, 14]]
// MOVED-LABEL: func.func @other_dimensions
// MOVED-NEXT: stablehlo.dot_general %arg0
// MOVED-NOT: mesh.exchange
// MOVED: stablehlo.reduce(%arg0
// MOVED-NEXT: return
func.func @other_dimensions(%x: tensor<14x8xf32>, %w: tensor<8x8xf32>) -> (tensor<14x8xf32>, tensor<14xf32>) {
  %s = shard.sharding @g split_axes = [[0]] sharded_dims_offsets = [0, 2, 5, 9, 14] : !shard.sharding
  %0 = shard.shard %x to %s : tensor<14x8xf32>
  %1 = stablehlo.dot_general %0, %w, contracting_dims = [1] x [0] : (tensor<14x8xf32>, tensor<8x8xf32>) -> tensor<14x8xf32>
  %z = stablehlo.constant dense<0.0> : tensor<f32>
  %2 = stablehlo.reduce(%0 init: %z) applies stablehlo.add across dimensions = [1] : (tensor<14x8xf32>, tensor<f32>) -> tensor<14xf32>
  return %1, %2 : tensor<14x8xf32>, tensor<14xf32>
}

// An annotation holds: elements change devices once.
// CHECK-LABEL: func.func @annotated_otherwise
// CHECK: math.exp %0 {mesh.shardings = [#mesh.shard<@g, {{\[\[}}0]]>]}
// MOVED-LABEL: func.func @annotated_otherwise
// MOVED-NEXT: mesh.exchange %arg0
// MOVED-NEXT: math.exp
// MOVED-NEXT: return
func.func @annotated_otherwise(%x: tensor<14xf32>) -> tensor<14xf32> {
  %s = shard.sharding @g split_axes = [[0]] sharded_dims_offsets = [0, 2, 5, 9, 14] : !shard.sharding
  %e = shard.sharding @g split_axes = [[0]] : !shard.sharding
  %0 = shard.shard %x to %s : tensor<14xf32>
  %1 = math.exp %0 : tensor<14xf32>
  %2 = shard.shard %1 to %e : tensor<14xf32>
  return %2 : tensor<14xf32>
}

// Offsets that constants give are known.
// CHECK-LABEL: func.func @constants
// CHECK-SAME: (%arg0: tensor<14xf32> {mesh.sharding = #mesh.shard<@g, {{\[\[}}0], {offsets = {{\[\[}}0, 2, 5, 9, 14]]}]>})
func.func @constants(%x: tensor<14xf32>) -> tensor<14xf32> {
  %c2 = arith.constant 2 : i64
  %i = arith.constant 9 : index
  %c9 = arith.index_cast %i : index to i64
  %s = shard.sharding @g split_axes = [[0]] sharded_dims_offsets = [0, %c2, 5, %c9, 14] : !shard.sharding
  %0 = shard.shard %x to %s : tensor<14xf32>
  return %0 : tensor<14xf32>
}

// Windows need equal shards: the elements change devices once before them, and once after.
// CHECK-LABEL: func.func @equal_shards_needed
// CHECK: "stablehlo.reduce_window"
// CHECK: {mesh.shardings = [#mesh.shard<@g, {{\[\[}}0]]>]}
// MOVED-LABEL: func.func @equal_shards_needed
// MOVED: mesh.exchange %arg0
// MOVED: mesh.update_halo
// MOVED: "stablehlo.reduce_window"
// MOVED: mesh.exchange
// MOVED-NEXT: math.exp
// MOVED-NEXT: return
func.func @equal_shards_needed(%x: tensor<16xf32>) -> tensor<16xf32> {
  %s = shard.sharding @g split_axes = [[0]] sharded_dims_offsets = [0, 2, 5, 9, 16] : !shard.sharding
  %e = shard.sharding @g split_axes = [[0]] : !shard.sharding
  %0 = shard.shard %x to %s : tensor<16xf32>
  %z = stablehlo.constant dense<0.0> : tensor<f32>
  %1 = "stablehlo.reduce_window"(%0, %z) <{window_dimensions = array<i64: 3>, padding = dense<1> : tensor<1x2xi64>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %m = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %m : tensor<f32>
  }) : (tensor<16xf32>, tensor<f32>) -> tensor<16xf32>
  %2 = shard.shard %1 to %e : tensor<16xf32>
  %3 = shard.shard %2 to %s annotate_for_users : tensor<16xf32>
  %4 = math.exp %3 : tensor<16xf32>
  return %4 : tensor<16xf32>
}
