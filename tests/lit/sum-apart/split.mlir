// A part is added to a sum without communication where the sum is split along the part's dimensions.
//
// RUN: shard-opt %s --spmd | filecheck %s
// RUN: shard-opt %s --sum-in-place --propagate --sum-apart | filecheck %s --check-prefix=APART
// RUN: shard-run %s --entry split --check
// RUN: shard-run %s --entry whole --check

"mesh.cluster"() {sym_name = "g", rank = 1 : i64, dim_sizes = [2]} : () -> ()

// CHECK-LABEL: func.func @split
// CHECK-NOT: all_reduce
// CHECK-NOT: all_gather
// CHECK: return
// APART-LABEL: func.func @split
// APART: %[[PUT:.*]] = stablehlo.dynamic_update_slice %{{.*}}, %arg1, %arg2 {mesh.shardings = [#mesh.shard<@g, {{\[\[}}0]]>]}
// APART: stablehlo.add %arg0, %[[PUT]] {mesh.shardings
func.func @split(%sum: tensor<5xf32> {mesh.sharding = #mesh.shard<@g, [[0]]>}, %part: tensor<2xf32>, %at: tensor<i32>) -> tensor<5xf32> {
  %zeros = stablehlo.constant dense<0.0> : tensor<5xf32>
  %0 = stablehlo.dynamic_update_slice %zeros, %part, %at : (tensor<5xf32>, tensor<2xf32>, tensor<i32>) -> tensor<5xf32>
  %1 = stablehlo.add %sum, %0 : tensor<5xf32>
  return %1 : tensor<5xf32>
}

// Split along another dimension, the part is added in its place.
// APART-LABEL: func.func @whole
// APART: %[[BEFORE:.*]] = stablehlo.dynamic_slice %arg0
// APART: %[[SUM:.*]] = stablehlo.add %[[BEFORE]], %arg1
// APART: stablehlo.dynamic_update_slice %arg0, %[[SUM]]
func.func @whole(%sum: tensor<5x4xf32> {mesh.sharding = #mesh.shard<@g, [[], [0]]>}, %part: tensor<2x4xf32>, %at: tensor<i32>) -> tensor<5x4xf32> {
  %zeros = stablehlo.constant dense<0.0> : tensor<5x4xf32>
  %first = stablehlo.constant dense<0> : tensor<i32>
  %0 = stablehlo.dynamic_update_slice %zeros, %part, %at, %first : (tensor<5x4xf32>, tensor<2x4xf32>, tensor<i32>, tensor<i32>) -> tensor<5x4xf32>
  %1 = stablehlo.add %sum, %0 : tensor<5x4xf32>
  return %1 : tensor<5x4xf32>
}
