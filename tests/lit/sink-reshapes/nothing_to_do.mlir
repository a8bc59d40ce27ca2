// What is annotated, what splits, what is no elementwise op, and what merges nothing stays.
//
// RUN: shard-opt %s -o %t.before
// RUN: shard-opt %s --sink-reshapes -o %t.after
// RUN: diff %t.before %t.after

"mesh.cluster"() {sym_name = "g", rank = 1 : i64, dim_sizes = [2]} : () -> ()

func.func @annotated(%x: tensor<2x4xf32>) -> tensor<8xf32> {
  %0 = stablehlo.reshape %x {mesh.shardings = [#mesh.shard<@g, [[0]]>]} : (tensor<2x4xf32>) -> tensor<8xf32>
  %1 = stablehlo.tanh %0 : tensor<8xf32>
  return %1 : tensor<8xf32>
}

func.func @annotated_behind(%x: tensor<2x4xf32>) -> tensor<8xf32> {
  %0 = stablehlo.reshape %x : (tensor<2x4xf32>) -> tensor<8xf32>
  %1 = stablehlo.tanh %0 {mesh.shardings = [#mesh.shard<@g, [[0]]>]} : tensor<8xf32>
  return %1 : tensor<8xf32>
}

func.func @splits(%x: tensor<8xf32>) -> tensor<2x4xf32> {
  %0 = stablehlo.reshape %x : (tensor<8xf32>) -> tensor<2x4xf32>
  %1 = stablehlo.tanh %0 : tensor<2x4xf32>
  return %1 : tensor<2x4xf32>
}

func.func @no_elementwise_op(%x: tensor<2x4xf32>) -> tensor<8xf32> {
  %0 = stablehlo.reshape %x : (tensor<2x4xf32>) -> tensor<8xf32>
  %1 = stablehlo.reverse %0, dims = [0] : tensor<8xf32>
  return %1 : tensor<8xf32>
}

func.func @other_parts(%x: tensor<4x6xf32>) -> tensor<3x8xf32> {
  %0 = stablehlo.reshape %x : (tensor<4x6xf32>) -> tensor<3x8xf32>
  %1 = stablehlo.tanh %0 : tensor<3x8xf32>
  return %1 : tensor<3x8xf32>
}
