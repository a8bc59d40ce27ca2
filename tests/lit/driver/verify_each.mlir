// A pass that leaves invalid IR is found out, unless --verify-each=0.
//
// RUN: not shard-opt %s --load-plugin %S/Inputs/breaks.py --break-it 2>&1 | filecheck %s
// RUN: shard-opt %s --load-plugin %S/Inputs/breaks.py --break-it --verify-each=0 | filecheck %s --check-prefix=OFF
// RUN: not shard-opt %s --verify-each=2 2>&1 | filecheck %s --check-prefix=VALUE

// CHECK: verify_each.mlir:{{[0-9]+}}:3: error: pass 'break-it' left invalid IR: type of return operand 0 ('i32') doesn't match function result type ('i64')
// OFF: -> i64
// VALUE: error: argument --verify-each: '2' is neither 0 nor 1

func.func @f(%x: i32) -> i32 {
  return %x : i32
}
