// What a device's windows read is taken from its shard and the halos around it.
//
// RUN: shard-opt %s --spmd | filecheck %s
// RUN: shard-opt %s --spmd | shard-opt - --canonicalize --cse --lower -o %t

shard.grid @g(shape = 2)

// Windows begin at 0 and 4, shards at 0 and 5: the first device reads from its first own element on,
// which is the second that it holds, the other one from the first that it holds on.
// CHECK-LABEL: func.func @apart
// CHECK: %[[HALO:.*]] = shard.update_halo {{.*}} halo_sizes = [1, 1] : tensor<7xf32>
// CHECK: %[[BEGINS:.*]] = arith.constant dense<[1, 0]> : tensor<2xi64>
// CHECK: %[[OWN:.*]] = shard.all_slice %[[BEGINS]] on @g
// CHECK: %[[BEGIN:.*]] = arith.index_cast
// CHECK: %[[READ:.*]] = tensor.extract_slice %[[HALO]][%[[BEGIN]]] [6] [1] : tensor<7xf32> to tensor<6xf32>
// CHECK: "stablehlo.reduce_window"(%[[READ]], %{{.*}}) <{padding = dense<0>
func.func @apart(%x: tensor<10xf32> {mesh.sharding = #mesh.shard<@g, [[0]]>})
    -> (tensor<8xf32> {mesh.sharding = #mesh.shard<@g, [[0]]>}) {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %0 = "stablehlo.reduce_window"(%x, %zero) <{window_dimensions = array<i64: 3>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %1 = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %1 : tensor<f32>
  }) : (tensor<10xf32>, tensor<f32>) -> tensor<8xf32>
  return %0 : tensor<8xf32>
}

// What each reads is in its own shard: the last three of the first, the first three of the other.
// CHECK-LABEL: func.func @sliced
// CHECK-NOT: shard.update_halo
// CHECK: arith.constant dense<[1, 0]> : tensor<2xi64>
// CHECK: stablehlo.slice %{{.*}} [0:3] : (tensor<3xf32>) -> tensor<3xf32>
func.func @sliced(%x: tensor<8xf32> {mesh.sharding = #mesh.shard<@g, [[0]]>})
    -> (tensor<6xf32> {mesh.sharding = #mesh.shard<@g, [[0]]>}) {
  %0 = stablehlo.slice %x [1:7] : (tensor<8xf32>) -> tensor<6xf32>
  return %0 : tensor<6xf32>
}

// Each takes the part that is in its own shard of the result.
// CHECK-LABEL: func.func @joined
// CHECK: %[[A:.*]] = tensor.extract_slice {{.*}} to tensor<4xf32>
// CHECK: %[[B:.*]] = tensor.extract_slice {{.*}} to tensor<4xf32>
// CHECK: arith.constant dense<[4, 1]> : tensor<2xi64>
// CHECK: linalg.generic {{.*}} ins(%[[A]], %[[B]]
// CHECK: arith.cmpi slt
// CHECK: arith.select
func.func @joined(%x: tensor<5xf32> {mesh.sharding = #mesh.shard<@g, [[0]]>}, %y: tensor<3xf32> {mesh.sharding = #mesh.shard<@g, [[0]]>})
    -> (tensor<8xf32> {mesh.sharding = #mesh.shard<@g, [[0]]>}) {
  %0 = stablehlo.concatenate %x, %y, dim = 0 : (tensor<5xf32>, tensor<3xf32>) -> tensor<8xf32>
  return %0 : tensor<8xf32>
}
