// Shards that go around, in functions that the body calls.

"sdy.mesh"() {mesh = #sdy.mesh<["x"=2, "y"=4]>, sym_name = "m"} : () -> ()
func.func @main(%arg0: tensor<8x16xf32>) -> tensor<8x16xf32> {
  %0 = "sdy.manual_computation"(%arg0) ({
  ^bb0(%arg1: tensor<4x4xf32>):
    %1 = func.call @twice(%arg1) : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %2 = func.call @once(%1) : (tensor<4x4xf32>) -> tensor<4x4xf32>
    "sdy.return"(%2) : (tensor<4x4xf32>) -> ()
  }) {in_shardings = #sdy.sharding_per_value<[<@m, [{"x"}, {"y"}]>]>, manual_axes = #sdy<manual_axes{"x", "y"}>, out_shardings = #sdy.sharding_per_value<[<@m, [{"x"}, {"y"}]>]>} : (tensor<8x16xf32>) -> tensor<8x16xf32>
  return %0 : tensor<8x16xf32>
}
func.func private @twice(%arg0: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %0 = call @once(%arg0) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %1 = call @once(%0) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  return %1 : tensor<4x4xf32>
}
func.func private @once(%arg0: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %0 = "stablehlo.collective_permute"(%arg0) <{source_target_pairs = dense<[[0, 1], [1, 2], [2, 3], [3, 0], [4, 5], [5, 6], [6, 7], [7, 4]]> : tensor<8x2xi64>}> : (tensor<4x4xf32>) -> tensor<4x4xf32>
  return %0 : tensor<4x4xf32>
}

// -----

func.func @main(%arg0: tensor<8x16xf32>) -> tensor<8x16xf32> {
  %0 = stablehlo.slice %arg0 [0:8, 0:4] : (tensor<8x16xf32>) -> tensor<8x4xf32>
  %1 = stablehlo.slice %arg0 [0:8, 4:16] : (tensor<8x16xf32>) -> tensor<8x12xf32>
  %2 = stablehlo.concatenate %1, %0, dim = 1 : (tensor<8x12xf32>, tensor<8x4xf32>) -> tensor<8x16xf32>
  return %2 : tensor<8x16xf32>
}
