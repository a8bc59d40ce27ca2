// Errors, warnings and remarks of ours and MLIR's meet the comments that expect them.
//
// RUN: shard-opt %s --verify-diagnostics --split-input-file --allow-unregistered-dialect --spmd -o %t
// RUN: shard-opt %s --verify-diagnostics=all --split-input-file --allow-unregistered-dialect --spmd -o %t
// RUN: filecheck %s --input-file=%t

// The part that is not refused is printed.
// CHECK: "test.unknown"
// CHECK-NOT: // -----

shard.grid @g(shape = 2)
func.func @warns(%x: tensor<4xf32>) -> tensor<4xf32> {
  %s = shard.sharding @g split_axes = [[0]] : !shard.sharding
  %0 = shard.shard %x to %s : tensor<4xf32>
  // expected-warning-re@+1 {{'test.{{un[a-z]+}}' op has no sharding rule}}
  %1 = "test.unknown"(%0) : (tensor<4xf32>) -> tensor<4xf32>
  return %1 : tensor<4xf32>
}

// -----

shard.grid @g(shape = 2)
func.func @partial(%x: tensor<5xf32> {mesh.sharding = #mesh.shard<@g, [[], [0]]>}) { // expected-error {{only a value that an op makes can be partial}}
  return
}

// -----

// expected-note@below {{see existing symbol definition here}}
func.func @twice() { return }
func.func @twice() { return }
// expected-error@above {{redefinition of symbol named 'twice'}}

// -----

// Each error of the verifier counts, not only the first.
func.func @first(%x: i32) -> i64 {
  return %x : i32 // expected-error {{doesn't match function result type}}
}
func.func @second(%x: i32) -> i64 {
  // expected-error@+1 {{doesn't match function result type}}
  return %x : i32
}

// -----

func.func @no_syntax() {
  nonsense
  // expected-error@-1 {{'nonsense' is unknown}}
}
