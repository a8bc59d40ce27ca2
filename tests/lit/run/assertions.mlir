// Programs of torch-mlir assert that their indices are in range.
//
// RUN: not shard-run %s 2>&1 | filecheck %s

// CHECK: assertions.mlir:1:1: error: the program ended itself (SIGABRT) in the compiled program: an assertion of it fails for these inputs

module {
  func.func @main(%x: tensor<4xi64>) -> tensor<4xi64> {
    %zero = arith.constant 0 : i64
    %r = tensor.empty() : tensor<4xi64>
    %0 = linalg.map ins(%x : tensor<4xi64>) outs(%r : tensor<4xi64>) (%e: i64, %old: i64) {
      %no = arith.constant false
      cf.assert %no, "every index is negative"
      linalg.yield %e : i64
    }
    return %0 : tensor<4xi64>
  }
}
