// Upstream's sharding passes run on functions; as flags, too, they run on those of the module.
//
// RUN: shard-opt %s --sharding-propagation | filecheck %s --check-prefix=PROPAGATED
// RUN: shard-opt %s --shard-partition | filecheck %s --check-prefix=LOCAL
// RUN: shard-opt %s --pass-pipeline='builtin.module(func.func(shard-partition))' | filecheck %s --check-prefix=LOCAL
// RUN: shard-opt %s --sharding-propagation='traversal=forward' --dump-pass-pipeline 2>&1 | filecheck %s --check-prefix=DUMPED

// DUMPED: builtin.module(func.func(sharding-propagation{traversal=forward}))
// PROPAGATED: tosa.sigmoid
// PROPAGATED: shard.shard
// LOCAL: func.func @main(%arg0: tensor<2x8xf32>) -> tensor<2x8xf32>
// LOCAL: tosa.sigmoid {{.*}} tensor<2x8xf32>
shard.grid @g(shape = 2)
func.func @main(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %s = shard.sharding @g split_axes = [[0]] : !shard.sharding
  %0 = shard.shard %x to %s : tensor<4x8xf32>
  %1 = shard.shard %0 to %s annotate_for_users : tensor<4x8xf32>
  %2 = tosa.sigmoid %1 : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %3 = shard.shard %2 to %s : tensor<4x8xf32>
  %4 = shard.shard %3 to %s annotate_for_users : tensor<4x8xf32>
  return %4 : tensor<4x8xf32>
}
