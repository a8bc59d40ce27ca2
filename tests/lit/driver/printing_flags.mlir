// Further flags of how the module is printed.
//
// RUN: shard-opt %s --mlir-use-nameloc-as-prefix | filecheck %s --check-prefix=NAMES
// RUN: shard-opt %s --mlir-elide-resource-strings-if-larger=4 | filecheck %s --check-prefix=ELIDED
// RUN: shard-opt %s --mlir-elide-resource-strings-if-larger=400 | filecheck %s --check-prefix=KEPT
// RUN: shard-opt %s --mlir-print-skip-regions | filecheck %s --check-prefix=SKIPPED
// RUN: shard-opt %s --mlir-print-debuginfo --mlir-pretty-debuginfo | filecheck %s --check-prefix=PRETTY
// RUN: shard-opt %s --mlir-print-assume-verified --mlir-disable-threading | filecheck %s --check-prefix=KEPT
// RUN: not shard-opt %s --mlir-elide-resource-strings-if-larger=x 2>&1 | filecheck %s --check-prefix=NUMBER

// NAMES: %sum = arith.addf %input, %cst
// ELIDED: dense_resource<blob>
// ELIDED-NOT: 0x04000000
// KEPT: dense_resource<blob>
// KEPT: blob: "0x04000000
// SKIPPED-NOT: func.func
// PRETTY: addf {{.*}} "sum"
// NUMBER: error: argument --mlir-elide-resource-strings-if-larger: 'x' is not a number from 0 on, below 2^63

func.func @main(%x: tensor<4xf32> loc("input")) -> tensor<4xf32> {
  %c = arith.constant dense_resource<blob> : tensor<4xf32>
  %y = arith.addf %x, %c : tensor<4xf32> loc("sum")
  return %y : tensor<4xf32>
}

{-#
  dialect_resources: { builtin: { blob: "0x0400000001000000020000000300000004000000" } }
#-}
