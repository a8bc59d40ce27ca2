// A rule states the sizes of global tensors, so the local form has none, and is read again.
//
// RUN: shard-opt %s --spmd | shard-opt | filecheck %s

shard.grid @g(shape = 2)

// CHECK-LABEL: func.func @calls(
// CHECK: stablehlo.custom_call @twice(%arg0)
// CHECK-NOT: mesh.sharding_rule
// CHECK-SAME: (tensor<2x3xf32>) -> tensor<2x3xf32>
func.func @calls(%x: tensor<4x3xf32> {mesh.sharding = #mesh.shard<@g, [[0]]>}) -> tensor<4x3xf32> {
  %0 = stablehlo.custom_call @twice(%x) {mesh.sharding_rule = "([i, j])->([i, j]) {i=4, j=3}"}
    : (tensor<4x3xf32>) -> tensor<4x3xf32>
  return %0 : tensor<4x3xf32>
}

// CHECK-LABEL: func.func @adds(
// CHECK: stablehlo.add %arg0, %arg0 : tensor<2x3xf32>
// CHECK-NOT: mesh.sharding_rule
func.func @adds(%x: tensor<4x3xf32> {mesh.sharding = #mesh.shard<@g, [[0]]>}) -> tensor<4x3xf32> {
  %0 = stablehlo.add %x, %x {mesh.sharding_rule = "([i, j], [i, j])->([i, j]) {i=4, j=3}"}
    : tensor<4x3xf32>
  return %0 : tensor<4x3xf32>
}
