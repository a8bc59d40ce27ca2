// Gradients that a loop adds up stay partial in the loop, and are reduced once, after it.
// RUN: shard-opt %s --propagate --materialize --split-input-file | filecheck %s

shard.grid @g(shape = 4)

// CHECK-LABEL: func.func @microbatches
// CHECK: stablehlo.while(%[[ACC:.*]] = %{{.*}}, %{{.*}} = %{{.*}}) : tensor<8x8xf32, #mesh.shard<@g, {{\[\[}}], [], [0]]>>
// CHECK-NOT: reduce
// CHECK: stablehlo.dot_general {{.*}} -> tensor<8x8xf32, #mesh.shard<@g, {{\[\[}}], [], [0]]>>
// CHECK-NOT: reduce
// CHECK: stablehlo.return
// CHECK: mesh.all_reduce
// CHECK-NOT: reduce
func.func @microbatches(%x: tensor<6x16x8xf32> {mesh.sharding = #mesh.shard<@g, [[], [0], []]>}) -> tensor<8x8xf32> {
  %zero = stablehlo.constant dense<0.0> : tensor<8x8xf32>
  %first = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %turns = stablehlo.constant dense<6> : tensor<i32>
  %sum:2 = stablehlo.while(%acc = %zero, %i = %first) : tensor<8x8xf32>, tensor<i32>
    cond {
      %go = stablehlo.compare LT, %i, %turns : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %go : tensor<i1>
    } do {
      %row = stablehlo.dynamic_slice %x, %i, %first, %first, sizes = [1, 16, 8] : (tensor<6x16x8xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x16x8xf32>
      %mine = stablehlo.reshape %row : (tensor<1x16x8xf32>) -> tensor<16x8xf32>
      %product = stablehlo.dot_general %mine, %mine, contracting_dims = [0] x [0] : (tensor<16x8xf32>, tensor<16x8xf32>) -> tensor<8x8xf32>
      %next = stablehlo.add %acc, %product : tensor<8x8xf32>
      %j = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %next, %j : tensor<8x8xf32>, tensor<i32>
    }
  return %sum#0 : tensor<8x8xf32>
}

// -----

shard.grid @g(shape = 4)

// A sum that the loop itself reads is whole.
// CHECK-LABEL: func.func @read_in_the_loop
// CHECK: stablehlo.while({{.*}}) : tensor<64x64xf32>, tensor<i32>
func.func @read_in_the_loop(%x: tensor<16x64xf32> {mesh.sharding = #mesh.shard<@g, [[0], []]>}) -> tensor<64x64xf32> {
  %zero = stablehlo.constant dense<0.0> : tensor<64x64xf32>
  %first = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %turns = stablehlo.constant dense<6> : tensor<i32>
  %sum:2 = stablehlo.while(%acc = %zero, %i = %first) : tensor<64x64xf32>, tensor<i32>
    cond {
      %go = stablehlo.compare LT, %i, %turns : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %go : tensor<i1>
    } do {
      %product = stablehlo.dot_general %x, %x, contracting_dims = [0] x [0] : (tensor<16x64xf32>, tensor<16x64xf32>) -> tensor<64x64xf32>
      %small = math.tanh %acc : tensor<64x64xf32>
      %next = stablehlo.add %small, %product : tensor<64x64xf32>
      %j = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %next, %j : tensor<64x64xf32>, tensor<i32>
    }
  return %sum#0 : tensor<64x64xf32>
}

// -----

shard.grid @g(shape = 4)

// Sums that are split among the devices are scattered in each iteration: whole ones are larger.
// CHECK-LABEL: func.func @sums_that_are_split
// CHECK: stablehlo.while(%{{.*}} = %{{.*}}, %{{.*}} = %{{.*}}) : tensor<8x8xf32, #mesh.shard<@g, {{\[\[}}0], []]>>
// CHECK: mesh.reduce_scatter
func.func @sums_that_are_split(%x: tensor<64x8xf32> {mesh.sharding = #mesh.shard<@g, [[0], []]>}) -> (tensor<8x8xf32> {mesh.sharding = #mesh.shard<@g, [[0], []]>}) {
  %zero = stablehlo.constant dense<0.0> : tensor<8x8xf32>
  %first = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %turns = stablehlo.constant dense<6> : tensor<i32>
  %sum:2 = stablehlo.while(%acc = %zero, %i = %first) : tensor<8x8xf32>, tensor<i32>
    cond {
      %go = stablehlo.compare LT, %i, %turns : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %go : tensor<i1>
    } do {
      %product = stablehlo.dot_general %x, %x, contracting_dims = [0] x [0] : (tensor<64x8xf32>, tensor<64x8xf32>) -> tensor<8x8xf32>
      %next = stablehlo.add %acc, %product : tensor<8x8xf32>
      %j = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %next, %j : tensor<8x8xf32>, tensor<i32>
    }
  return %sum#0 : tensor<8x8xf32>
}

// -----

shard.grid @g(shape = 4)

// In `scf` and `linalg`, too, where the product begins from the sum.
// CHECK-LABEL: func.func @started_from
// CHECK: scf.for {{.*}} -> (tensor<8x8xf32, #mesh.shard<@g, {{\[\[}}], [], [0]]>>)
// CHECK-NOT: reduce
// CHECK: linalg.matmul
// CHECK-NOT: reduce
// CHECK: scf.yield
// CHECK: mesh.all_reduce
func.func @started_from(%x: tensor<8x64xf32> {mesh.sharding = #mesh.shard<@g, [[], [0]]>}, %start: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %begin = arith.constant 0 : index
  %step = arith.constant 1 : index
  %end = arith.constant 6 : index
  %y = tensor.empty() : tensor<64x8xf32>
  %t = linalg.transpose ins(%x : tensor<8x64xf32>) outs(%y : tensor<64x8xf32>) permutation = [1, 0]
  %sum = scf.for %i = %begin to %end step %step iter_args(%acc = %start) -> tensor<8x8xf32> {
    %next = linalg.matmul ins(%x, %t : tensor<8x64xf32>, tensor<64x8xf32>) outs(%acc : tensor<8x8xf32>) -> tensor<8x8xf32>
    scf.yield %next : tensor<8x8xf32>
  }
  return %sum : tensor<8x8xf32>
}
