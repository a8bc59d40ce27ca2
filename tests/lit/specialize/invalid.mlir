// RUN: shard-opt %s --split-input-file --verify-diagnostics --specialize="shapes={4x8,5x8} grid=2x4"

shard.grid @g(shape = ?x?)
func.func @main(%x: tensor<?x8xf32>, %y: tensor<?x8xf32>) -> tensor<?x8xf32> {
  // expected-error@+1 {{'arith.addf' op is on tensors of 4 and of 5 elements}}
  %0 = arith.addf %x, %y : tensor<?x8xf32>
  return %0 : tensor<?x8xf32>
}

// -----

shard.grid @g(shape = ?x4)
// expected-error@+1 {{argument y of @main is a tensor<6x?xf32>: it cannot have the shape 5x8}}
func.func @main(%x: tensor<?x8xf32>, %y: tensor<6x?xf32>) -> tensor<?x8xf32> {
  return %x : tensor<?x8xf32>
}

// -----

shard.grid @g(shape = ?x4)
// expected-error@+1 {{function @main has 1 arguments, and is to have 2 shapes}}
func.func @main(%x: tensor<?x8xf32>) -> tensor<?x8xf32> {
  return %x : tensor<?x8xf32>
}

// -----

// expected-error@+1 {{grid @g(?x3) cannot have the shape 2x4}}
shard.grid @g(shape = ?x3)
func.func @main(%x: tensor<?x8xf32>, %y: tensor<?x8xf32>) -> tensor<?x8xf32> {
  return %x : tensor<?x8xf32>
}

// -----

// What goes around grows: it has another size in each round.
shard.grid @g(shape = ?x4)
func.func @main(%x: tensor<?x8xf32>, %y: tensor<?x8xf32>) -> tensor<?x8xf32> {
  %zero = arith.constant 0.0 : f32
  %limit = arith.constant 40 : index
  %c0 = arith.constant 0 : index
  // expected-error@+1 {{the loop begins with a tensor<4x8xf32>, and goes on with a tensor<8x8xf32> that is not known to be one}}
  %r = scf.while (%a = %x) : (tensor<?x8xf32>) -> tensor<?x8xf32> {
    %d = tensor.dim %a, %c0 : tensor<?x8xf32>
    %go = arith.cmpi slt, %d, %limit : index
    scf.condition(%go) %a : tensor<?x8xf32>
  } do {
  ^bb0(%a: tensor<?x8xf32>):
    %b = tensor.concat dim(0) %a, %x : (tensor<?x8xf32>, tensor<?x8xf32>) -> tensor<?x8xf32>
    scf.yield %b : tensor<?x8xf32>
  }
  return %r : tensor<?x8xf32>
}

// -----

shard.grid @g(shape = ?x4)
// expected-error@+1 {{function @main is in the local form: --specialize it before it is sharded}}
func.func @main(%x: tensor<?x8xf32>, %y: tensor<?x8xf32>) -> tensor<?x8xf32> attributes {mesh.form = "local"} {
  return %x : tensor<?x8xf32>
}

// -----

shard.grid @g(shape = ?x4)
func.func @main(%x: tensor<?x8xf32>, %y: tensor<?x8xf32>) -> tensor<?x8xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c3 = arith.constant 3 : index
  // expected-error@+1 {{the loop begins with a tensor<4x8xf32>, and goes on with a tensor<8x8xf32> that is not known to be one}}
  %r = scf.for %i = %c0 to %c3 step %c1 iter_args(%a = %x) -> tensor<?x8xf32> {
    %b = tensor.concat dim(0) %a, %x : (tensor<?x8xf32>, tensor<?x8xf32>) -> tensor<?x8xf32>
    %e = math.exp %b : tensor<?x8xf32>
    scf.yield %e : tensor<?x8xf32>
  }
  return %r : tensor<?x8xf32>
}
