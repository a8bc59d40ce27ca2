module {
  func.func @main() -> (i32, i32) {
    %0 = arith.constant 1 : i32
    %1 = arith.constant 1 : i32
    return %0, %1 : i32, i32
  }
}

{-#
  external_resources: {
    mlir_reproducer: {
      verify_each: true,
      pipeline: "builtin.module(func.func(cse),print-ir{label=\22a, b\22})"
    }
  }
#-}
