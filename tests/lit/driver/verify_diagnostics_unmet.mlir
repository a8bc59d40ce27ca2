// What is expected and not there, there and not expected, or of another severity.
//
// RUN: not shard-opt %s --verify-diagnostics --split-input-file -o %t 2> %t.err
// RUN: filecheck %s --input-file=%t.err
// RUN: not shard-opt %s --verify-diagnostics=only-expected --split-input-file -o %t 2> %t.err
// RUN: filecheck %s --input-file=%t.err --check-prefix=ONLY
// RUN: not shard-opt %s --verify-diagnostics --nope 2>&1 | filecheck %s --check-prefix=FLAG

// CHECK: unmet.mlir:22:4: error: expected error "not there" was not produced
// CHECK-NEXT: unmet.mlir:29:1: error: unexpected error: redefinition of symbol named 'f'
// CHECK-NEXT: unmet.mlir:28:1: error: unexpected note: see existing symbol definition here
// CHECK-NEXT: unmet.mlir:36:15: error: 'error' diagnostic emitted when expecting a 'warning'
// CHECK-NEXT: unmet.mlir:36:15: error: expected warning "nonsense" was not produced
// CHECK-NEXT: unmet.mlir:41:4: error: invalid regex: missing ), unterminated subpattern
// CHECK-NEXT: unmet.mlir:45:4: error: found start of regex with no end '}}'
// CHECK-NEXT: unmet.mlir:49:4: error: expected remark "no place" was not produced
// CHECK-NOT: error
// ONLY: error: expected error "not there" was not produced
// ONLY-NEXT: error: expected warning "nonsense" was not produced
// FLAG: error: unknown flag '--nope'

// expected-error@+1 {{not there}}
func.func @f() { return }

// -----

// Two of one name.
func.func @f() { return }
func.func @f() { return }

// -----


// The right text.
func.func @f() {
  nonsense // expected-warning {{nonsense}}
}

// -----

// expected-error-re {{a{{(}}b}}

// -----

// expected-error-re {{a{{b}}

// -----

// expected-remark@unknown {{no place}}
