// Searches go over shards first; what is exchanged is one element of each, and what is gathered the found.
//
// RUN: shard-opt %s --propagate --split-reductions | filecheck %s
// RUN: shard-opt %s --spmd | filecheck %s --check-prefix=LOCAL

shard.grid @g(shape = 2x4)

// CHECK-LABEL: func.func @main(
// CHECK: %[[A:.*]] = stablehlo.reshape %arg0 : (tensor<8x24xf32>) -> tensor<8x4x6xf32>
// CHECK: %[[B:.*]] = stablehlo.reshape %{{.*}} : (tensor<8x24xi32>) -> tensor<8x4x6xi32>
// CHECK: %[[PIECES:.*]]:2 = stablehlo.reduce(%[[A]] init: %{{.*}}), (%[[B]] init: %{{.*}}) across dimensions = [2]
// CHECK-SAME: -> (tensor<8x4xf32>, tensor<8x4xi32>)
// CHECK: stablehlo.reduce(%[[PIECES]]#0 init: %{{.*}}), (%[[PIECES]]#1 init: %{{.*}}) across dimensions = [1]
// CHECK-SAME: -> (tensor<8xf32>, tensor<8xi32>)

// LOCAL-LABEL: func.func @main(
// LOCAL: shard.all_to_all {{.*}} on @g grid_axes = [1] split_axis = 0 concat_axis = 1 : tensor<4x1xf32> -> tensor<1x4xf32>
// LOCAL: shard.all_to_all {{.*}} on @g grid_axes = [1] split_axis = 0 concat_axis = 1 : tensor<4x1xi32> -> tensor<1x4xi32>
// LOCAL: shard.all_gather {{.*}} on @g grid_axes = [1] gather_axis = 0 : tensor<1xi32> -> tensor<4xi32>
// LOCAL-NOT: shard.all_gather
func.func @main(%x: tensor<8x24xf32> {mesh.sharding = #mesh.shard<@g, [[0], [1]]>})
    -> (tensor<8xi32> {mesh.sharding = #mesh.shard<@g, [[0]]>}) {
  %i = stablehlo.iota dim = 1 : tensor<8x24xi32>
  %least = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %r:2 = stablehlo.reduce(%x init: %least), (%i init: %zero) across dimensions = [1]
      : (tensor<8x24xf32>, tensor<8x24xi32>, tensor<f32>, tensor<i32>) -> (tensor<8xf32>, tensor<8xi32>)
   reducer(%a: tensor<f32>, %b: tensor<f32>) (%j: tensor<i32>, %k: tensor<i32>) {
    %larger = stablehlo.compare GT, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
    %nan = stablehlo.compare NE, %a, %a : (tensor<f32>, tensor<f32>) -> tensor<i1>
    %found = stablehlo.or %larger, %nan : tensor<i1>
    %same = stablehlo.compare EQ, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
    %before = stablehlo.compare LT, %j, %k : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %earlier = stablehlo.and %same, %before : tensor<i1>
    %at = stablehlo.or %found, %earlier : tensor<i1>
    %v = stablehlo.select %found, %a, %b : tensor<i1>, tensor<f32>
    %p = stablehlo.select %at, %j, %k : tensor<i1>, tensor<i32>
    stablehlo.return %v, %p : tensor<f32>, tensor<i32>
  }
  return %r#1 : tensor<8xi32>
}
