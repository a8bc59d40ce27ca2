// Gathers and products of them go on shard by shard; products and reduce-scatters alike.
//
// RUN: shard-opt %s --chunk-products | filecheck %s
// RUN: shard-opt %s --chunk-products="devices=1" | filecheck %s --check-prefix=LARGE

shard.grid @g(shape = 2)

// CHECK-LABEL: func.func @gathered
// CHECK-NOT: shard.all_gather
// CHECK: stablehlo.dot_general %arg0, %arg1{{.*}} -> tensor<4x8xf32>
// CHECK: stablehlo.dynamic_update_slice
// CHECK: %[[NEXT:.*]] = "mesh.collective_permute"(%arg0) {cluster = @g, mesh_axis = [0], permutation = [1, 0]}
// CHECK: stablehlo.dot_general %[[NEXT]], %arg1
// CHECK: stablehlo.dynamic_update_slice
// LARGE-LABEL: func.func @gathered
// LARGE-NEXT: shard.all_gather
func.func @gathered(%x: tensor<4x16xf32>, %w: tensor<16x8xf32>) -> tensor<8x8xf32> attributes {mesh.form = "local"} {
  %0 = shard.all_gather %x on @g grid_axes = [0] gather_axis = 0 : tensor<4x16xf32> -> tensor<8x16xf32>
  %1 = stablehlo.dot_general %0, %w, contracting_dims = [1] x [0] : (tensor<8x16xf32>, tensor<16x8xf32>) -> tensor<8x8xf32>
  return %1 : tensor<8x8xf32>
}

// CHECK-LABEL: func.func @scattered
// CHECK-NOT: shard.reduce_scatter
// CHECK: stablehlo.dynamic_slice %arg1
// CHECK: stablehlo.dot_general {{.*}} -> tensor<8x4xf32>
// CHECK: "mesh.collective_permute"
// CHECK: stablehlo.dot_general
// CHECK: stablehlo.add
func.func @scattered(%x: tensor<8x16xf32>, %w: tensor<16x8xf32>) -> tensor<8x4xf32> attributes {mesh.form = "local"} {
  %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<8x16xf32>, tensor<16x8xf32>) -> tensor<8x8xf32>
  %1 = shard.reduce_scatter %0 on @g grid_axes = [0] scatter_axis = 1 : tensor<8x8xf32> -> tensor<8x4xf32>
  return %1 : tensor<8x4xf32>
}

// The gathered dimension is summed over; a batch; used by others; a maximum.
// CHECK-LABEL: func.func @not_so
// CHECK-COUNT-3: shard.all_gather
// CHECK: shard.reduce_scatter
func.func @not_so(%x: tensor<8x8xf32>, %w: tensor<16x8xf32>, %b: tensor<2x4x8xf32>, %c: tensor<4x8x2xf32>, %y: tensor<4x16xf32>)
    -> (tensor<8x8xf32>, tensor<4x4x2xf32>, tensor<8x16xf32>, tensor<8x8xf32>, tensor<8x4xf32>) attributes {mesh.form = "local"} {
  %0 = shard.all_gather %x on @g grid_axes = [0] gather_axis = 1 : tensor<8x8xf32> -> tensor<8x16xf32>
  %1 = stablehlo.dot_general %0, %w, contracting_dims = [1] x [0] : (tensor<8x16xf32>, tensor<16x8xf32>) -> tensor<8x8xf32>
  %2 = shard.all_gather %b on @g grid_axes = [0] gather_axis = 0 : tensor<2x4x8xf32> -> tensor<4x4x8xf32>
  %3 = stablehlo.dot_general %2, %c, batching_dims = [0] x [0], contracting_dims = [2] x [1] : (tensor<4x4x8xf32>, tensor<4x8x2xf32>) -> tensor<4x4x2xf32>
  %4 = shard.all_gather %y on @g grid_axes = [0] gather_axis = 0 : tensor<4x16xf32> -> tensor<8x16xf32>
  %5 = stablehlo.dot_general %4, %w, contracting_dims = [1] x [0] : (tensor<8x16xf32>, tensor<16x8xf32>) -> tensor<8x8xf32>
  %6 = stablehlo.dot_general %4, %w, contracting_dims = [1] x [0] : (tensor<8x16xf32>, tensor<16x8xf32>) -> tensor<8x8xf32>
  %7 = shard.reduce_scatter %6 on @g grid_axes = [0] reduction = max scatter_axis = 1 : tensor<8x8xf32> -> tensor<8x4xf32>
  return %1, %3, %4, %5, %7 : tensor<8x8xf32>, tensor<4x4x2xf32>, tensor<8x16xf32>, tensor<8x8xf32>, tensor<8x4xf32>
}
