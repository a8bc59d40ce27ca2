// Scalars stay as they are: an op that takes some, beside merged tensors, is computed before the merge.
//
// RUN: shard-opt %s --sink-reshapes | filecheck %s

"mesh.cluster"() {sym_name = "g", rank = 1 : i64, dim_sizes = [8]} : () -> ()

// CHECK-LABEL: func.func @selected
// CHECK: %[[CHOSEN:.*]] = stablehlo.select %arg1, %arg0, %arg0 : tensor<i1>, tensor<2x4xf32>
// CHECK: %[[MERGED:.*]] = stablehlo.reshape %[[CHOSEN]]
// CHECK: return %[[MERGED]]
func.func @selected(%x: tensor<2x4xf32>, %p: tensor<i1>) -> tensor<8xf32> {
  %0 = stablehlo.reshape %x : (tensor<2x4xf32>) -> tensor<8xf32>
  %1 = stablehlo.select %p, %0, %0 : tensor<i1>, tensor<8xf32>
  return %1 : tensor<8xf32>
}

// CHECK-LABEL: func.func @clamped
// CHECK: stablehlo.clamp %arg1, %arg0, %arg1 : (tensor<f32>, tensor<2x4xf32>, tensor<f32>) -> tensor<2x4xf32>
func.func @clamped(%x: tensor<2x4xf32>, %a: tensor<f32>) -> tensor<8xf32> {
  %0 = stablehlo.reshape %x : (tensor<2x4xf32>) -> tensor<8xf32>
  %1 = stablehlo.clamp %a, %0, %a : (tensor<f32>, tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
  return %1 : tensor<8xf32>
}
