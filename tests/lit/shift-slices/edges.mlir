// The inside of a tensor is computed where it lies between the edges: as a tensor of the whole size, whose slices are
// shifts, of which the inside is selected.
//
// RUN: shard-opt %s --propagate --shift-slices --split-input-file | filecheck %s
// RUN: shard-opt %s --spmd --split-input-file | filecheck %s --check-prefix=LOCAL

shard.grid @g(shape = 4)

// CHECK-LABEL: func.func @joined(
// CHECK-DAG: %[[AFTER:.*]] = stablehlo.pad %arg0, {{.*}} low = [-1, 0], high = [1, 0]
// CHECK-DAG: %[[BEFORE:.*]] = stablehlo.pad %arg0, {{.*}} low = [1, 0], high = [-1, 0]
// CHECK: %[[SUM:.*]] = stablehlo.add %[[AFTER]], %[[BEFORE]] {{.*}} : tensor<64x8xf32>
// CHECK: %[[FIRST:.*]] = stablehlo.select {{.*}}, %arg0, %[[SUM]]
// CHECK: %[[BOTH:.*]] = stablehlo.select {{.*}}, %arg0, %[[FIRST]]
// CHECK: return %[[BOTH]]
// CHECK-NOT: stablehlo.concatenate

// LOCAL-LABEL: func.func @joined(
// LOCAL-NOT: shard.all_gather
// LOCAL-NOT: shard.all_to_all
// LOCAL-COUNT-2: shard.update_halo
func.func @joined(%x: tensor<64x8xf32> {mesh.sharding = #mesh.shard<@g, [[0]]>})
    -> (tensor<64x8xf32> {mesh.sharding = #mesh.shard<@g, [[0]]>}) {
  %a = stablehlo.slice %x [2:64, 0:8] : (tensor<64x8xf32>) -> tensor<62x8xf32>
  %b = stablehlo.slice %x [0:62, 0:8] : (tensor<64x8xf32>) -> tensor<62x8xf32>
  %y = stablehlo.add %a, %b : tensor<62x8xf32>
  %first = stablehlo.slice %x [0:1, 0:8] : (tensor<64x8xf32>) -> tensor<1x8xf32>
  %last = stablehlo.slice %x [63:64, 0:8] : (tensor<64x8xf32>) -> tensor<1x8xf32>
  %c = stablehlo.concatenate %first, %y, %last, dim = 0 : (tensor<1x8xf32>, tensor<62x8xf32>, tensor<1x8xf32>) -> tensor<64x8xf32>
  return %c : tensor<64x8xf32>
}

// -----

// As `x.at[1:-1, 1:-1].add(y)` in JAX.
// CHECK-LABEL: func.func @added(
// CHECK: %[[SHIFTED:.*]] = stablehlo.pad %arg0, {{.*}} low = [-1, 0], high = [1, 0]
// CHECK: %[[SUM:.*]] = stablehlo.add %arg0, %[[SHIFTED]]
// CHECK: stablehlo.select {{.*}}, %[[SUM]], %arg0
// CHECK-NOT: stablehlo.scatter
shard.grid @g(shape = 4)
func.func @added(%x: tensor<64x8xf32> {mesh.sharding = #mesh.shard<@g, [[0]]>})
    -> (tensor<64x8xf32> {mesh.sharding = #mesh.shard<@g, [[0]]>}) {
  %y = stablehlo.slice %x [2:64, 1:7] : (tensor<64x8xf32>) -> tensor<62x6xf32>
  %i = stablehlo.constant dense<1> : tensor<2xi32>
  %c = "stablehlo.scatter"(%x, %i, %y) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [0, 1], scatter_dims_to_operand_dims = [0, 1]>}> ({
  ^bb0(%old: tensor<f32>, %new: tensor<f32>):
    %sum = stablehlo.add %old, %new : tensor<f32>
    stablehlo.return %sum : tensor<f32>
  }) : (tensor<64x8xf32>, tensor<2xi32>, tensor<62x6xf32>) -> tensor<64x8xf32>
  return %c : tensor<64x8xf32>
}

// -----

// Outside of the inside the divisor is zero on the last device, which ends no program of StableHLO.
// CHECK-LABEL: func.func @divided(
// CHECK: %[[QUOTIENT:.*]] = stablehlo.divide {{.*}} : tensor<64xi32>
// CHECK: stablehlo.select {{.*}}, %[[QUOTIENT]], %arg0
shard.grid @g(shape = 4)
func.func @divided(%x: tensor<64xi32> {mesh.sharding = #mesh.shard<@g, [[0]]>})
    -> (tensor<64xi32> {mesh.sharding = #mesh.shard<@g, [[0]]>}) {
  %a = stablehlo.slice %x [2:64] : (tensor<64xi32>) -> tensor<62xi32>
  %b = stablehlo.slice %x [0:62] : (tensor<64xi32>) -> tensor<62xi32>
  %y = stablehlo.divide %a, %b : tensor<62xi32>
  %i = stablehlo.constant dense<1> : tensor<i32>
  %c = stablehlo.dynamic_update_slice %x, %y, %i : (tensor<64xi32>, tensor<62xi32>, tensor<i32>) -> tensor<64xi32>
  return %c : tensor<64xi32>
}

// -----

// An inside that comes from elsewhere is padded with zeros, which halos hold, and filled later.
// CHECK-LABEL: func.func @given(
// CHECK: stablehlo.pad %{{.*}} low = [1, 0], high = [1, 0]
// CHECK: stablehlo.select
shard.grid @g(shape = 4)
func.func @given(%y: tensor<62x8xf32> {mesh.sharding = #mesh.shard<@g, [[0]]>})
    -> (tensor<64x8xf32> {mesh.sharding = #mesh.shard<@g, [[0]]>}) {
  %t = stablehlo.tanh %y : tensor<62x8xf32>
  %f = stablehlo.constant dense<3.0> : tensor<f32>
  %c = stablehlo.pad %t, %f, low = [1, 0], high = [1, 0], interior = [0, 0] : (tensor<62x8xf32>, tensor<f32>) -> tensor<64x8xf32>
  return %c : tensor<64x8xf32>
}
