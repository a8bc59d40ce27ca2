// Upstream's passes stand between ours, as flags and in a pipeline.
//
// RUN: shard-opt %s --propagate --canonicalize --materialize --cse --partition --canonicalize -o %t.flags
// RUN: shard-opt %s --pass-pipeline='builtin.module(propagate,canonicalize,materialize,cse,partition,func.func(canonicalize))' -o %t.pipeline
// RUN: diff %t.flags %t.pipeline
// RUN: filecheck %s --input-file=%t.flags
// RUN: not shard-opt %s --propagat 2>&1 | filecheck %s --check-prefix=UNKNOWN
// RUN: not shard-opt %s --materialize=strickt 2>&1 | filecheck %s --check-prefix=OPTION
// RUN: not shard-opt %s --pass-pipeline='builtin.module(func.func(propagate))' 2>&1 | filecheck %s --check-prefix=NESTED

// UNKNOWN: error: unknown flag '--propagat': did you mean '--propagate'?
// OPTION: error: pass 'materialize' has no option 'strickt': its options are objective, device-model, strict
// NESTED: error: pass 'propagate' runs on 'builtin.module', but stands in 'func.func(...)': write builtin.module(propagate)

shard.grid @g(shape = 2)
// CHECK-LABEL: func.func @main
// CHECK-NEXT: math.exp
// CHECK-NEXT: return
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %s = shard.sharding @g split_axes = [[0]] : !shard.sharding
  %0 = shard.shard %x to %s : tensor<4xf32>
  %1 = math.exp %0 : tensor<4xf32>
  %2 = math.exp %0 : tensor<4xf32>
  return %1 : tensor<4xf32>
}
