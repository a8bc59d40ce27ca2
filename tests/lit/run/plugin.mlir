// `run` loads plugins as `opt` does: here a rule for an op that has none.
//
// RUN: shard-run %s --load-plugin %S/Inputs/rule.py --check 2>&1 | filecheck %s
// RUN: not shard-run %s --load-plugin no_such_module 2>&1 | filecheck %s --check-prefix=ERROR

// CHECK-NOT: warning
// CHECK: no communication
// CHECK: check passed
// ERROR: error: cannot load plugin 'no_such_module': ModuleNotFoundError

shard.grid @g(shape = 2)
func.func @main(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %s = shard.sharding @g split_axes = [[0]] : !shard.sharding
  %0 = shard.shard %x to %s : tensor<4x8xf32>
  %1 = tensor.cast %0 : tensor<4x8xf32> to tensor<4x8xf32>
  %2 = shard.shard %1 to %s : tensor<4x8xf32>
  return %2 : tensor<4x8xf32>
}
