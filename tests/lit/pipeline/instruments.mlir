// What is shown of a running pipeline: ours and upstream's passes alike.
//
// RUN: shard-opt %s --propagate --cse --mlir-timing -o %t.out 2>&1 | filecheck %s --check-prefix=TIMING
// RUN: shard-opt %s --propagate --cse --mlir-print-ir-after-all -o %t.out 2>&1 | filecheck %s --check-prefix=AFTER
// RUN: shard-opt %s --propagate --cse --mlir-print-ir-before-all -o %t.out 2>&1 | filecheck %s --check-prefix=BEFORE
// RUN: shard-opt %s --propagate --canonicalize --mlir-print-ir-after-change -o %t.out 2>&1 | filecheck %s --check-prefix=CHANGE
// RUN: not shard-opt %s --partition --mlir-print-ir-after-failure -o %t.out 2>&1 | filecheck %s --check-prefix=FAILURE
// RUN: shard-opt %s --propagate --verify-each=0 --emit-bytecode -o %t.bc
// RUN: shard-opt %t.bc --spmd -o %t.from_bytecode
// RUN: shard-opt %s --spmd -o %t.from_text
// RUN: diff %t.from_bytecode %t.from_text

// TIMING: Execution time report
// TIMING: propagate
// TIMING: CSE
// AFTER: IR Dump After propagate
// AFTER: attributes {propagated
// AFTER: IR Dump After cse
// BEFORE: IR Dump Before propagate
// BEFORE: IR Dump Before cse
// CHANGE: IR Dump After propagate
// CHANGE-NOT: IR Dump After canonicalize
// FAILURE: IR Dump After partition Failed
// FAILURE: math.exp
// FAILURE: error: function @main is in the annotated form

shard.grid @g(shape = 2)
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = math.exp %x : tensor<4xf32>
  return %0 : tensor<4xf32>
}
