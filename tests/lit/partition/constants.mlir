// A slice of a splat constant is a smaller constant; of any other one it stays a slice.
//
// RUN: shard-opt %s --partition | filecheck %s

shard.grid @g(shape = 2)

// CHECK-LABEL: func.func @splat
// CHECK-NEXT: %[[C:.*]] = arith.constant dense<3.000000e+00> : tensor<2x4xf32>
// CHECK-NEXT: return %[[C]] : tensor<2x4xf32>
func.func @splat() -> tensor<4x4xf32, #mesh.shard<@g, [[0]]>> {
  %0 = arith.constant dense<3.0> : tensor<4x4xf32>
  %1 = "mesh.local_split"(%0) {sharding = [[0], []]}
      : (tensor<4x4xf32>) -> tensor<4x4xf32, #mesh.shard<@g, [[0]]>>
  return %1 : tensor<4x4xf32, #mesh.shard<@g, [[0]]>>
}

// CHECK-LABEL: func.func @dense
// CHECK: shard.all_slice %{{.*}} on @g grid_axes = [0] slice_axis = 0 : tensor<4xf32> -> tensor<2xf32>
func.func @dense() -> tensor<4xf32, #mesh.shard<@g, [[0]]>> {
  %0 = arith.constant dense<[1.0, 2.0, 3.0, 4.0]> : tensor<4xf32>
  %1 = "mesh.local_split"(%0) {sharding = [[0]]}
      : (tensor<4xf32>) -> tensor<4xf32, #mesh.shard<@g, [[0]]>>
  return %1 : tensor<4xf32, #mesh.shard<@g, [[0]]>>
}
