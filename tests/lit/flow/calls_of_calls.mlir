// Functions that others call are cut once for each way that they are called in, however the calls nest, and the first
// of each keeps its name.
//
// RUN: shard-opt %s --propagate | filecheck %s
// RUN: shard-opt %s --spmd | filecheck %s --check-prefix=LOCAL
// RUN: shard-opt %s --propagate | shard-opt --propagate --spmd | filecheck %s --check-prefix=LOCAL
// RUN: shard-run %s --check | filecheck %s --check-prefix=NUMBERS

// CHECK-LABEL: func.func @main(
// CHECK: call @layer(%arg0)
// CHECK: call @layer_1(%arg2)
// CHECK: %[[Y:.*]] = call @layer(%arg1)
// CHECK: call @layer(%[[Y]])
// CHECK: func.func private @layer(
// CHECK-COUNT-2: call @inner(
// CHECK: func.func private @layer_1(
// CHECK-COUNT-2: call @inner_{{[0-9]+}}(
// CHECK: func.func private @inner(
// CHECK: func.func private @inner_{{[0-9]+}}(
// CHECK-NOT: func.func

// LOCAL: func.func private @layer(%arg0: tensor<4x8xf32>
// LOCAL: func.func private @layer_1(%arg0: tensor<8x4xf32>
// LOCAL: func.func private @inner(%arg0: tensor<4x8xf32>
// LOCAL: func.func private @inner_{{[0-9]+}}(%arg0: tensor<8x4xf32>
// LOCAL-NOT: func.func

// NUMBERS: no communication
// NUMBERS: check passed
shard.grid @g(shape = 2x2)
func.func @main(%x: tensor<8x8xf32> {mesh.sharding = #mesh.shard<@g, [[0]]>}, %y: tensor<8x8xf32> {mesh.sharding = #mesh.shard<@g, [[0]]>}, %z: tensor<8x8xf32> {mesh.sharding = #mesh.shard<@g, [[], [1]]>}) -> (tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>) {
  %0 = func.call @layer(%x) : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %1 = func.call @layer(%z) : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %2 = func.call @layer(%y) : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %3 = func.call @layer(%2) : (tensor<8x8xf32>) -> tensor<8x8xf32>
  return %0, %1, %3 : tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>
}
func.func private @layer(%x: tensor<8x8xf32>) -> tensor<8x8xf32> attributes {no_inline} {
  %0 = func.call @inner(%x) : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %1 = func.call @inner(%0) : (tensor<8x8xf32>) -> tensor<8x8xf32>
  return %1 : tensor<8x8xf32>
}
func.func private @inner(%x: tensor<8x8xf32>) -> tensor<8x8xf32> attributes {no_inline} {
  %c = arith.constant dense<2.0> : tensor<8x8xf32>
  %0 = arith.mulf %x, %c : tensor<8x8xf32>
  return %0 : tensor<8x8xf32>
}
