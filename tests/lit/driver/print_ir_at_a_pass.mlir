// The IR before and after single passes, ours and upstream's, in groups too.
//
// RUN: shard-opt %s --propagate --cse --canonicalize --mlir-print-ir-before=propagate --mlir-print-ir-after=propagate,canonicalize -o %t.out 2> %t.err
// RUN: filecheck %s --input-file=%t.err --check-prefix=FLAGS
// RUN: shard-opt %s --pass-pipeline='builtin.module(func.func(cse,canonicalize))' --mlir-print-ir-after=cse --mlir-print-ir-after=symbol-dce -o %t.out 2> %t.err
// RUN: filecheck %s --input-file=%t.err --check-prefix=NESTED
// RUN: not shard-opt %s --mlir-print-ir-after=propagat 2>&1 | filecheck %s --check-prefix=UNKNOWN
// RUN: shard-opt %s --pass-pipeline='builtin.module(func.func(cse))' --mlir-print-ir-after-all --mlir-print-ir-module-scope -o %t.out 2>&1 | filecheck %s --check-prefix=SCOPE
// RUN: rm -rf %t.tree
// RUN: shard-opt %s --propagate --cse --mlir-print-ir-after-all --mlir-print-ir-tree-dir=%t.tree -o %t.out
// RUN: ls %t.tree/builtin_module_no-symbol-name | filecheck %s --check-prefix=TREE

// FLAGS: IR Dump Before propagate
// FLAGS-NOT: mesh.form
// FLAGS: IR Dump After propagate
// FLAGS: attributes {propagated
// FLAGS-NOT: IR Dump After cse
// FLAGS: IR Dump After canonicalize
// NESTED: IR Dump After cse
// NESTED-NEXT: func.func @first
// NESTED: IR Dump After cse
// NESTED-NEXT: func.func @second
// NESTED-NOT: IR Dump
// UNKNOWN: error: unknown pass 'propagat': did you mean 'propagate'?
// SCOPE: IR Dump After cse ('func.func' operation: @first)
// SCOPE: module
// TREE: 0_fold-grid-sizes.mlir
// TREE: _cse.mlir

shard.grid @g(shape = 2)
func.func @first(%x: tensor<4xf32>) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}
func.func @second(%x: tensor<4xf32>) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}
