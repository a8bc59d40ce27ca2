// Upstream's annotations become ours: of a value itself, for its users, with sizes, inside regions.
//
// RUN: shard-opt %s --import | filecheck %s
// RUN: shard-opt %s --import | shard-opt --import | filecheck %s

// CHECK-NOT: shard.
// CHECK: mesh.cluster @g(rank = 2, dim_sizes = [2, -1])
shard.grid @g(shape = 2x?)

// CHECK-LABEL: func.func @annotations
func.func @annotations(%x: tensor<4x8xf32>, %h: i64) -> (tensor<4x8xf32>, tensor<4x8xf32>) {
  %s = shard.sharding @g split_axes = [[0]] : !shard.sharding
  %t = shard.sharding @g split_axes = [[], [1]] : !shard.sharding
  %u = shard.sharding @g split_axes = [[], [0]] halo_sizes = [1, %h] : !shard.sharding
  // CHECK{LITERAL}: %0 = mesh.annotate %arg0 {as_result = true, required = true, sharding = #mesh.shard<@g, [[0], []]>}
  %0 = shard.shard %x to %s : tensor<4x8xf32>
  // CHECK{LITERAL}: %1 = mesh.annotate %0 {as_result = false, required = true, sharding = #mesh.shard<@g, [[], [1]]>}
  %1 = shard.shard %0 to %t annotate_for_users : tensor<4x8xf32>
  // CHECK{LITERAL}: %2 = mesh.annotate %0, %arg1 {as_result = false, required = true, sharding = #mesh.shard<@g, [[], [0], {halo = [[], [1, "?"]]}]>}
  %2 = shard.shard %0 to %u annotate_for_users : tensor<4x8xf32>
  // CHECK: return %1, %2
  return %1, %2 : tensor<4x8xf32>, tensor<4x8xf32>
}

// CHECK-LABEL: func.func @branches
func.func @branches(%c: i1, %x: tensor<4xf32>) -> tensor<4xf32> {
  %s = shard.sharding @g split_axes = [[0]] : !shard.sharding
  // CHECK: scf.if
  %0 = scf.if %c -> tensor<4xf32> {
    // CHECK: [[A:%.*]] = mesh.annotate %arg1
    // CHECK-NEXT: math.tanh [[A]]
    %1 = shard.shard %x to %s : tensor<4xf32>
    %2 = math.tanh %x : tensor<4xf32>
    scf.yield %2 : tensor<4xf32>
  } else {
    // CHECK: math.exp %arg1
    %1 = math.exp %x : tensor<4xf32>
    scf.yield %1 : tensor<4xf32>
  }
  return %0 : tensor<4xf32>
}

// CHECK-LABEL: func.func @blocks
func.func @blocks(%c: i1, %x: tensor<4xf32>) -> tensor<4xf32> {
  %s = shard.sharding @g split_axes = [[0]] : !shard.sharding
  cf.cond_br %c, ^bb1, ^bb2(%x : tensor<4xf32>)
^bb1:
  // CHECK: [[B:%.*]] = mesh.annotate %arg1
  // CHECK-NEXT: cf.br ^bb2([[B]] : tensor<4xf32>)
  %1 = shard.shard %x to %s : tensor<4xf32>
  cf.br ^bb2(%1 : tensor<4xf32>)
^bb2(%y: tensor<4xf32>):
  return %y : tensor<4xf32>
}
