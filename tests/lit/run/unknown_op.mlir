// An op without a rule runs replicated, on gathered operands, with one warning.
//
// RUN: shard-run %s --check 2>%t.err | filecheck %s
// RUN: filecheck %s --check-prefix=WARNING --input-file=%t.err
// RUN: not shard-opt %s --propagate --materialize=strict=true 2>&1 | filecheck %s --check-prefix=STRICT
// RUN: not shard-opt %s --spmd --strict 2>&1 | filecheck %s --check-prefix=STRICT
// RUN: not shard-opt %s --cse --strict 2>&1 | filecheck %s --check-prefix=USELESS

// CHECK: all_gather 0 2  2x8xf32    4x8xf32 64
// CHECK: check passed
// WARNING: unknown_op.mlir:{{[0-9]+}}:8: warning: 'builtin.unrealized_conversion_cast' op has no sharding rule: it runs replicated, on gathered operands; give it one with @sharding_rule("builtin.unrealized_conversion_cast")
// WARNING-NOT: warning
// STRICT: unknown_op.mlir:{{[0-9]+}}:8: error: 'builtin.unrealized_conversion_cast' op has no sharding rule
// USELESS: error: --strict is of no use here: it is for --materialize
shard.grid @g(shape = 2)
func.func @main(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %s = shard.sharding @g split_axes = [[0]] : !shard.sharding
  %0 = shard.shard %x to %s : tensor<4x8xf32>
  %1 = math.tanh %0 : tensor<4x8xf32>
  %2 = builtin.unrealized_conversion_cast %1 : tensor<4x8xf32> to tensor<4x8xf32>
  %3 = math.exp %2 : tensor<4x8xf32>
  %4 = shard.shard %3 to %s : tensor<4x8xf32>
  return %4 : tensor<4x8xf32>
}
