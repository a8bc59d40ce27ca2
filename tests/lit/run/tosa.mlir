// tosa: a product split along its sum, and elementwise ops that broadcast a dimension of 1.
//
// RUN: shard-run %s --check | filecheck %s
// RUN: shard-opt %s --propagate --materialize | filecheck %s --check-prefix=DISTRIBUTED

// CHECK: reduce_scatter 1 2 2x4x8xf32 2x2x8xf32
// CHECK: check passed
// DISTRIBUTED: %[[PRODUCT:.*]] = tosa.matmul
// DISTRIBUTED: mesh.reduce_scatter %[[PRODUCT]] {mesh_axis = [1], reduction = "sum", tensor_axis = 1 : i64}
// DISTRIBUTED: tosa.add %{{.*}}, %arg2
// DISTRIBUTED-SAME{LITERAL}: (tensor<4x4x8xf32, #mesh.shard<@g, [[0], [1], []]>>, tensor<1x1x8xf32>)

shard.grid @g(shape = 2x2)
func.func @main(%a: tensor<4x4x16xf32>, %b: tensor<4x16x8xf32>, %bias: tensor<1x1x8xf32>)
    -> tensor<4x4x8xf32> {
  %a_lies = shard.sharding @g split_axes = [[0], [], [1]] : !shard.sharding
  %y_lies = shard.sharding @g split_axes = [[0], [1]] : !shard.sharding
  %as = shard.shard %a to %a_lies : tensor<4x4x16xf32>
  %zp = "tosa.const"() {values = dense<0.0> : tensor<1xf32>} : () -> tensor<1xf32>
  %0 = tosa.matmul %as, %b, %zp, %zp
      : (tensor<4x4x16xf32>, tensor<4x16x8xf32>, tensor<1xf32>, tensor<1xf32>) -> tensor<4x4x8xf32>
  %1 = tosa.add %0, %bias : (tensor<4x4x8xf32>, tensor<1x1x8xf32>) -> tensor<4x4x8xf32>
  %2 = tosa.tanh %1 : (tensor<4x4x8xf32>) -> tensor<4x4x8xf32>
  %3 = shard.shard %2 to %y_lies : tensor<4x4x8xf32>
  return %3 : tensor<4x4x8xf32>
}
