// Remarks of C++ passes are shown in our form, and verified.
//
// RUN: shard-opt %s --transform-interpreter --verify-diagnostics -o %t
// RUN: shard-opt %s --transform-interpreter -o %t 2>&1 | filecheck %s

// CHECK: verify_diagnostics_of_mlir.mlir:{{[0-9]+}}:1: remark: a function
// CHECK-NEXT: verify_diagnostics_of_mlir.mlir:{{[0-9]+}}:1: note: see current operation:

module attributes {transform.with_named_sequence} {
  transform.named_sequence @__transform_main(%root: !transform.any_op) {
    %0 = transform.structured.match ops{["func.func"]} in %root
      : (!transform.any_op) -> !transform.any_op
    transform.debug.emit_remark_at %0, "a function" : !transform.any_op
    transform.yield
  }
// expected-remark@below {{a function}}
func.func @f() {
  return
}
}
