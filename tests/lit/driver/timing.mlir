// One table has the time of our passes and of upstream's, in groups too.
//
// RUN: shard-opt %s --pass-pipeline='builtin.module(propagate,func.func(cse),materialize,canonicalize)' --mlir-timing -o %t 2>&1 | filecheck %s

// CHECK: Execution time report
// CHECK: propagate-shardings
// CHECK-NEXT: merge-clones
// CHECK-NEXT: 'func.func' Pipeline
// CHECK-NEXT: CSE
// CHECK: insert-collectives
// CHECK-NEXT: Canonicalizer
// CHECK: Total
// CHECK-NOT: Execution time report

shard.grid @g(shape = 2)
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}
