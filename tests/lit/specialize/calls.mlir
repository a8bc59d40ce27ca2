// Functions that call the one whose arguments get sizes keep their type, and give it what it takes. Calls
// pass on sizes that are computed, both ways.
//
// RUN: shard-opt %s --split-input-file --verify-diagnostics --specialize=shapes=4x8 | filecheck %s

// CHECK: func.func @other(%arg0: tensor<?x8xf32>) -> tensor<?x8xf32>
// CHECK: call @main(%{{.*}}) : (tensor<4x8xf32>) -> tensor<4x8xf32>
shard.grid @g(shape = 2)
func.func @other(%x: tensor<?x8xf32>) -> tensor<?x8xf32> {
  %d = func.call @main(%x) : (tensor<?x8xf32>) -> tensor<?x8xf32>
  return %d : tensor<?x8xf32>
}
func.func @main(%x: tensor<?x8xf32>) -> tensor<?x8xf32> {
  %e = math.exp %x : tensor<?x8xf32>
  return %e : tensor<?x8xf32>
}

// -----

shard.grid @g(shape = 2)
func.func @other(%x: tensor<5x8xf32>) -> tensor<?x8xf32> {
  %c = tensor.cast %x : tensor<5x8xf32> to tensor<?x8xf32>
  // expected-error@+1 {{function @main is called with a tensor<5x8xf32> as argument 0, which is to be a tensor<4x8xf32>}}
  %d = func.call @main(%c) : (tensor<?x8xf32>) -> tensor<?x8xf32>
  return %d : tensor<?x8xf32>
}
func.func @main(%x: tensor<?x8xf32>) -> tensor<?x8xf32> {
  return %x : tensor<?x8xf32>
}

// -----

// One that calls itself would be copied without end.
shard.grid @g(shape = 2)
func.func private @f(%x: tensor<?x8xf32>, %go: i1) -> tensor<?x8xf32> {
  %r = scf.if %go -> tensor<?x8xf32> {
    // expected-error@+1 {{function @f calls itself: without end}}
    %d = func.call @f(%x, %go) : (tensor<?x8xf32>, i1) -> tensor<?x8xf32>
    scf.yield %d : tensor<?x8xf32>
  } else {
    scf.yield %x : tensor<?x8xf32>
  }
  return %r : tensor<?x8xf32>
}
func.func @main(%x: tensor<?x8xf32>) -> tensor<?x8xf32> {
  %go = arith.constant true
  %d = func.call @f(%x, %go) : (tensor<?x8xf32>, i1) -> tensor<?x8xf32>
  return %d : tensor<?x8xf32>
}

// -----

// @both is called with other sizes, and one by another; @rows gives a size back.
// CHECK: func.func private @both{{.*}} -> tensor<12x8xf32>
// CHECK: func.func private @both_1{{.*}} -> tensor<16x8xf32>
// CHECK: func.func @main(%arg0: tensor<4x8xf32>) -> (tensor<12x8xf32>, tensor<16x8xf32>)
shard.grid @g(shape = 2)
func.func private @rows(%x: tensor<i32>, %by: tensor<i32>) -> tensor<i32> {
  %0 = stablehlo.multiply %x, %by : tensor<i32>
  return %0 : tensor<i32>
}
func.func private @both(%rows: tensor<i32>, %by: tensor<i32>) -> tensor<?x8xf32> {
  %0 = call @rows(%rows, %by) : (tensor<i32>, tensor<i32>) -> tensor<i32>
  %1 = stablehlo.reshape %0 : (tensor<i32>) -> tensor<1xi32>
  %eight = stablehlo.constant dense<8> : tensor<1xi32>
  %shape = stablehlo.concatenate %1, %eight, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
  %2 = stablehlo.dynamic_iota %shape, dim = 0 : (tensor<2xi32>) -> tensor<?x8xf32>
  return %2 : tensor<?x8xf32>
}
func.func @main(%x: tensor<?x8xf32>) -> (tensor<?x8xf32>, tensor<?x8xf32>) {
  %d = stablehlo.get_dimension_size %x, dim = 0 : (tensor<?x8xf32>) -> tensor<i32>
  %three = stablehlo.constant dense<3> : tensor<i32>
  %0 = call @both(%d, %three) : (tensor<i32>, tensor<i32>) -> tensor<?x8xf32>
  %1 = call @both(%d, %d) : (tensor<i32>, tensor<i32>) -> tensor<?x8xf32>
  return %0, %1 : tensor<?x8xf32>, tensor<?x8xf32>
}
