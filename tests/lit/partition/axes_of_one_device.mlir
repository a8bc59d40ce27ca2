// An axis of size 1 cuts nothing: a tensor that comes to lie along it, or no longer does, stays where it is.
//
// RUN: shard-opt %s --spmd | filecheck %s
// RUN: shard-run %s --check --entry=major | filecheck %s --check-prefix=RESULT
// RUN: shard-run %s --check --entry=elsewhere | filecheck %s --check-prefix=RESULT

// RESULT: check passed

shard.grid @g(shape = 2x1)

// CHECK-LABEL: func.func @major(
// CHECK-NEXT: %[[E:.*]] = math.exp %arg0 : tensor<2x2xf32>
// CHECK-NEXT: return %[[E]]
func.func @major(%x: tensor<4x2xf32> {mesh.sharding = #mesh.shard<@g, [[0]]>})
    -> (tensor<4x2xf32> {mesh.sharding = #mesh.shard<@g, [[1, 0]]>}) {
  %0 = math.exp %x : tensor<4x2xf32>
  return %0 : tensor<4x2xf32>
}

// CHECK-LABEL: func.func @elsewhere(
// CHECK-NEXT: %[[E:.*]] = math.exp %arg0 : tensor<2x2xf32>
// CHECK-NEXT: return %[[E]]
func.func @elsewhere(%x: tensor<4x2xf32> {mesh.sharding = #mesh.shard<@g, [[1, 0], []]>})
    -> (tensor<4x2xf32> {mesh.sharding = #mesh.shard<@g, [[0], [1]]>}) {
  %0 = math.exp %x : tensor<4x2xf32>
  return %0 : tensor<4x2xf32>
}
