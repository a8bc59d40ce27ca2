// Pipelines as mlir-opt reads them, with groups, and what is wrong with those that it does not.
//
// RUN: shard-opt %s --pass-pipeline='builtin.module( builtin.module( erase-sharding, func.func( cse ) ), any(any(canonicalize{max-iterations=3})) )' | filecheck %s
// RUN: shard-opt %s --pass-pipeline='builtin.module(builtin.module(builtin.module(erase-sharding)))' | filecheck %s --check-prefix=KEPT
// RUN: shard-opt %s -canonicalize -cse -llvm-request-c-wrappers | filecheck %s --check-prefix=DASH
// RUN: not shard-opt %s --pass-pipeline='builtin.module(cse,canonicalise)' 2>&1 | filecheck %s --check-prefix=UNKNOWN
// RUN: not shard-opt %s --pass-pipeline='builtin.module(materialize{strict=maybe})' 2>&1 | filecheck %s --check-prefix=VALUE
// RUN: not shard-opt %s --pass-pipeline='builtin.module(materialize{strict=1,strict=0})' 2>&1 | filecheck %s --check-prefix=TWICE
// RUN: not shard-opt %s --pass-pipeline='builtin.module(canonicalize{nope=3})' 2>&1 | filecheck %s --check-prefix=OPTION
// RUN: not shard-opt %s --pass-pipeline='builtin.module(cse' 2>&1 | filecheck %s --check-prefix=BRACKETS
// RUN: not shard-opt %s --pass-pipeline='cse,,cse' 2>&1 | filecheck %s --check-prefix=COMMA
// RUN: not shard-opt %s --pass-pipeline='builtin.module(llvm-request-c-wrappers)' 2>&1 | filecheck %s --check-prefix=NESTING
// RUN: not shard-opt %s --pass-pipeline='any(propagate)' 2>&1 | filecheck %s --check-prefix=ANY
// RUN: not shard-opt %s --pass-pipeline='spmd{strict}' 2>&1 | filecheck %s --check-prefix=SPMD
// RUN: not shard-opt %s --pass-pipeline='cse' --cse 2>&1 | filecheck %s --check-prefix=BOTH

// UNKNOWN: error: unknown pass 'canonicalise': did you mean 'canonicalize'?
// VALUE: error: option 'strict' of pass 'materialize' must be true or false, found 'maybe'
// TWICE: error: option 'strict' of pass 'materialize' is given twice
// OPTION: error: cannot add 'canonicalize{nope=3}' to the pipeline: {{.*}}no such option nope
// BRACKETS: error: the pipeline 'builtin.module(cse' has unbalanced brackets
// COMMA: error: the pipeline 'cse,,cse' should have the name of a pass at ',cse'
// NESTING: error: pass 'llvm-request-c-wrappers' runs on 'func.func', but stands in 'builtin.module(...)': write func.func(llvm-request-c-wrappers)
// ANY: error: 'any(propagate)' has a pass in Python: name the ops in place of 'any'
// SPMD: error: pass 'spmd' has no option 'strict': its options are objective, device-model
// BOTH: error: --pass-pipeline is given together with --cse: use one of them

// CHECK: func.func @main
// CHECK-NOT: propagated
// KEPT: propagated
// DASH: llvm.emit_c_interface
module @outer {
  module @inner {
    func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> attributes {propagated} {
      return %x : tensor<4xf32>
    }
  }
  func.func @f() { return }
}
