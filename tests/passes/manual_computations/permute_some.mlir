// Shards that are not sent on are zeros.

"sdy.mesh"() {mesh = #sdy.mesh<["x"=2, "y"=4]>, sym_name = "m"} : () -> ()
func.func @main(%arg0: tensor<8x16xf32>) -> tensor<8x16xf32> {
  %0 = "sdy.manual_computation"(%arg0) ({
  ^bb0(%arg1: tensor<4x4xf32>):
    %1 = "stablehlo.collective_permute"(%arg1) <{source_target_pairs = dense<[[0, 1], [1, 2], [2, 3], [4, 5], [5, 6], [6, 7]]> : tensor<6x2xi64>}> : (tensor<4x4xf32>) -> tensor<4x4xf32>
    "sdy.return"(%1) : (tensor<4x4xf32>) -> ()
  }) {in_shardings = #sdy.sharding_per_value<[<@m, [{"x"}, {"y"}]>]>, manual_axes = #sdy<manual_axes{"x", "y"}>, out_shardings = #sdy.sharding_per_value<[<@m, [{"x"}, {"y"}]>]>} : (tensor<8x16xf32>) -> tensor<8x16xf32>
  return %0 : tensor<8x16xf32>
}

// -----

func.func @main(%arg0: tensor<8x16xf32>) -> tensor<8x16xf32> {
  %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
  %0 = stablehlo.slice %arg0 [0:8, 0:12] : (tensor<8x16xf32>) -> tensor<8x12xf32>
  %1 = stablehlo.pad %0, %cst, low = [0, 4], high = [0, 0], interior = [0, 0] : (tensor<8x12xf32>, tensor<f32>) -> tensor<8x16xf32>
  return %1 : tensor<8x16xf32>
}
