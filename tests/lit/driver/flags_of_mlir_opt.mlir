// Flags of mlir-opt that say what is shown of a run, those that cannot be had here, and flags that nobody has.
//
// RUN: shard-opt --list-passes | filecheck %s --check-prefix=PASSES
// RUN: shard-opt %s --cse --mlir-timing --mlir-timing-display=tree -o %t 2>&1 | filecheck %s --check-prefix=TREE
// RUN: not shard-opt %s --cse --mlir-timing --mlir-timing-display=list 2>&1 | filecheck %s --check-prefix=LIST
// RUN: shard-opt %s --cse --mlir-pass-statistics -o %t 2>&1 | filecheck %s --check-prefix=STATISTICS
// RUN: shard-opt %s --cse --mlir-pass-statistics --mlir-pass-statistics-display=list -o %t 2>&1 | filecheck %s --check-prefix=STATISTICS
// RUN: shard-opt %s --cse --mlir-disable-threading | filecheck %s
// RUN: not shard-opt %s --mlir-print-value-users 2>&1 | filecheck %s --check-prefix=USERS
// RUN: not shard-opt %s -mlir-print-unique-ssa-ids 2>&1 | filecheck %s --check-prefix=UNIQUE
// RUN: not shard-opt %s --irdl-file=a.mlir 2>&1 | filecheck %s --check-prefix=IRDL
// RUN: not shard-opt %s --mlir-timin 2>&1 | filecheck %s --check-prefix=NEAR
// RUN: not shard-opt %s --nobody-has-this=1 2>&1 | filecheck %s --check-prefix=FAR
// RUN: not shard-opt %s --pass-pipeline='builtin.module(nope)' 2>&1 | filecheck %s --check-prefix=PASS

// PASSES: --propagate {{ *}}Complete the annotations
// PASSES: --cse {{ *}}Eliminate common sub-expressions
// TREE: Execution time report
// LIST: error: argument --mlir-timing-display: the value 'list' is none of
// STATISTICS: Pass statistics report
// CHECK: func.func @main
// USERS: error: --mlir-print-value-users of mlir-opt is not supported: MLIR's Python bindings have no way to ask for it
// UNIQUE: error: --mlir-print-unique-ssa-ids of mlir-opt is not supported
// IRDL: error: --irdl-file of mlir-opt is not supported: --load-plugin loads dialects and passes, from Python
// NEAR: error: unknown flag '--mlir-timin': did you mean '--mlir-timing'?
// FAR: error: unknown flag '--nobody-has-this': no pass or option is called so
// PASS: error: unknown pass 'nope'

func.func @main() {
  return
}
