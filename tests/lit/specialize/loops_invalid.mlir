// Rounds that may end in another shape: the assumption that they do not is not to be folded into what
// they end in, a slice say, which then would be taken as large as it began.
//
// RUN: shard-opt %s --split-input-file --verify-diagnostics --specialize=shapes=4x8

shard.grid @g(shape = 2)
func.func @main(%x: tensor<?x8xf32>, %n: tensor<index>) -> tensor<?x8xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %rows = tensor.extract %n[] : tensor<index>
  // expected-error@+1 {{the loop begins with a tensor<4x8xf32>, and goes on with a tensor<?x8xf32> that is not known to be one}}
  %w:2 = scf.while (%a = %x, %i = %c0) : (tensor<?x8xf32>, index) -> (tensor<?x8xf32>, index) {
    %go = arith.cmpi slt, %i, %c2 : index
    scf.condition(%go) %a, %i : tensor<?x8xf32>, index
  } do {
  ^bb0(%a: tensor<?x8xf32>, %i: index):
    %b = tensor.extract_slice %a[0, 0] [%rows, 8] [1, 1] : tensor<?x8xf32> to tensor<?x8xf32>
    %j = arith.addi %i, %c1 : index
    scf.yield %b, %j : tensor<?x8xf32>, index
  }
  return %w#0 : tensor<?x8xf32>
}

// -----

shard.grid @g(shape = 2)
func.func @main(%x: tensor<?x8xf32>) -> tensor<?x8xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  // expected-error@+1 {{the loop begins with a tensor<4x8xf32>, and goes on with a tensor<3x8xf32> that is not known to be one}}
  %w = scf.for %i = %c0 to %c2 step %c1 iter_args(%a = %x) -> tensor<?x8xf32> {
    %d = tensor.dim %a, %c0 : tensor<?x8xf32>
    %less = arith.subi %d, %c1 : index
    %b = tensor.extract_slice %a[0, 0] [%less, 8] [1, 1] : tensor<?x8xf32> to tensor<?x8xf32>
    scf.yield %b : tensor<?x8xf32>
  }
  return %w : tensor<?x8xf32>
}

// -----

shard.grid @g(shape = 2)
func.func @main(%x: tensor<?x8xf32>) -> tensor<?x8xf32> {
  %c1 = arith.constant 1 : index
  %c3 = arith.constant 3 : index
  // expected-error@+1 {{the loop begins with a tensor<4x8xf32>, and goes on with a tensor<?x8xf32> that is not known to be one}}
  %w = scf.for %i = %c1 to %c3 step %c1 iter_args(%a = %x) -> tensor<?x8xf32> {
    %z = arith.constant 5.0 : f32
    %e = tensor.empty(%i) : tensor<?x8xf32>
    %b = linalg.fill ins(%z : f32) outs(%e : tensor<?x8xf32>) -> tensor<?x8xf32>
    scf.yield %b : tensor<?x8xf32>
  }
  return %w : tensor<?x8xf32>
}

// -----

shard.grid @g(shape = 2)
func.func @main(%x: tensor<?x8xf32>) -> tensor<?x8xf32> {
  %none = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  // expected-error@+1 {{the loop begins with a tensor<4x8xf32>, and goes on with a tensor<8x8xf32> that is not known to be one}}
  %r:2 = stablehlo.while(%a = %x, %i = %none) : tensor<?x8xf32>, tensor<i32>
    cond {
    %go = stablehlo.compare LT, %i, %one : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %go : tensor<i1>
  } do {
    %j = stablehlo.add %i, %one : tensor<i32>
    %b = stablehlo.concatenate %a, %a, dim = 0 : (tensor<?x8xf32>, tensor<?x8xf32>) -> tensor<?x8xf32>
    stablehlo.return %b, %j : tensor<?x8xf32>, tensor<i32>
  }
  return %r#0 : tensor<?x8xf32>
}

// -----

shard.grid @g(shape = 2)
func.func @main(%x: tensor<?x8xf32>) -> tensor<5x8xf32> {
  // expected-error@+1 {{'tensor.cast' op makes a tensor<5x8xf32> of a tensor<4x8xf32>}}
  %b = tensor.cast %x : tensor<?x8xf32> to tensor<5x8xf32>
  return %b : tensor<5x8xf32>
}
