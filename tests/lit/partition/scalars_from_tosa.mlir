// RUN: shard-opt %s --spmd | filecheck %s
// RUN: shard-run %s --check

// A shape of no sizes, which a scalar has, stays as it is on a shard.
shard.grid @g(shape = 2)
// CHECK-LABEL: func.func @main
func.func @main(%x: tensor<4xf32> {mesh.sharding = #mesh.shard<@g, [[0]]>}, %z: tensor<1x1xf32>)
    -> (tensor<f32>, tensor<f32>, tensor<4xf32>) {
  %shape = arith.constant dense<> : tensor<0xindex>
  // CHECK: tensor.reshape %arg1(%{{.*}}) : (tensor<1x1xf32>, tensor<0xindex>) -> tensor<f32>
  %0 = tensor.reshape %z(%shape) : (tensor<1x1xf32>, tensor<0xindex>) -> tensor<f32>
  %none = tosa.const_shape {values = dense<> : tensor<0xindex>} : () -> !tosa.shape<0>
  // CHECK: tosa.reshape %arg1, %{{.*}} : (tensor<1x1xf32>, !tosa.shape<0>) -> tensor<f32>
  %1 = tosa.reshape %z, %none : (tensor<1x1xf32>, !tosa.shape<0>) -> tensor<f32>
  return %0, %1, %x : tensor<f32>, tensor<f32>, tensor<4xf32>
}
