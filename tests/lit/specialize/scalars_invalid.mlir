// RUN: shard-opt %s --split-input-file --verify-diagnostics --specialize="scalars={,300}"

// expected-error@+1 {{argument n of @main is a i8: it cannot have the value 300}}
func.func @main(%x: tensor<8xf32>, %n: i8) {
  return
}

// -----

// expected-error@+1 {{argument n of @main is a tensor<i64>: it cannot have the value 300}}
func.func @main(%x: tensor<8xf32>, %n: tensor<i64>) {
  return
}

// -----

// expected-error@+1 {{function @main has 1 arguments, and is to have 2 scalars}}
func.func @main(%x: tensor<8xf32>) {
  return
}

// -----

// expected-error@+1 {{function @main is called in the module, so its arguments cannot become constants}}
func.func @main(%x: tensor<8xf32>, %n: i64) {
  return
}
func.func @other(%x: tensor<8xf32>, %n: i64) {
  func.call @main(%x, %n) : (tensor<8xf32>, i64) -> ()
  return
}

// -----

// expected-error@+1 {{function @main is in the local form: --specialize it before it is sharded}}
func.func @main(%x: tensor<8xf32>, %n: i64) attributes {mesh.form = "local"} {
  return
}
