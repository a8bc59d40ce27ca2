// In a loop, too, the init of a split reduction is added once, after it; and what then is made of the
// sum stays in the loop.
//
// RUN: shard-opt %s --propagate --materialize | filecheck %s --check-prefix=LOOP
// RUN: shard-run %s --check | filecheck %s

// LOOP: scf.for
// LOOP: %[[PARTS:.*]] = linalg.matmul
// LOOP: %[[SUM:.*]] = mesh.reduce_scatter %[[PARTS]]
// LOOP: %[[BOTH:.*]] = arith.addf %{{.*}}, %[[SUM]]
// LOOP: mesh.all_to_all %[[BOTH]]
// LOOP: scf.yield
// CHECK: check passed

shard.grid @g(shape = 2)
func.func @main(%x: tensor<4x4xf32>, %w: tensor<4x4xf32>, %b: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %rows = shard.sharding @g split_axes = [[0]] : !shard.sharding
  %columns = shard.sharding @g split_axes = [[], [0]] : !shard.sharding
  %xs = shard.shard %x to %columns : tensor<4x4xf32>
  %ws = shard.shard %w to %rows : tensor<4x4xf32>
  %bs = shard.shard %b to %rows : tensor<4x4xf32>
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c3 = arith.constant 1 : index
  %r = scf.for %i = %c0 to %c3 step %c1 iter_args(%a = %bs) -> tensor<4x4xf32> {
    %m = linalg.matmul ins(%xs, %ws : tensor<4x4xf32>, tensor<4x4xf32>)
      outs(%bs : tensor<4x4xf32>) -> tensor<4x4xf32>
    %ms = shard.shard %m to %rows annotate_for_users : tensor<4x4xf32>
    %mw = shard.shard %m to %columns annotate_for_users : tensor<4x4xf32>
    %e = math.exp %mw : tensor<4x4xf32>
    %n = arith.mulf %e, %a : tensor<4x4xf32>
    %o = arith.addf %n, %ms : tensor<4x4xf32>
    %t = math.tanh %o : tensor<4x4xf32>
    scf.yield %t : tensor<4x4xf32>
  }
  return %r : tensor<4x4xf32>
}
