// Computations that feed each other what lies otherwise.

"sdy.mesh"() {mesh = #sdy.mesh<["x"=2, "y"=4]>, sym_name = "m"} : () -> ()
func.func @main(%arg0: tensor<8x16xf32>) -> tensor<8x16xf32> {
  %cst = stablehlo.constant dense<2.000000e+00> : tensor<8x16xf32>
  %0 = "sdy.manual_computation"(%arg0) ({
  ^bb0(%arg1: tensor<4x4xf32>):
    %3 = "stablehlo.collective_permute"(%arg1) <{source_target_pairs = dense<[[0, 1], [1, 2], [2, 3], [3, 0], [4, 5], [5, 6], [6, 7], [7, 4]]> : tensor<8x2xi64>}> : (tensor<4x4xf32>) -> tensor<4x4xf32>
    "sdy.return"(%3) : (tensor<4x4xf32>) -> ()
  }) {in_shardings = #sdy.sharding_per_value<[<@m, [{"x"}, {"y"}]>]>, manual_axes = #sdy<manual_axes{"x", "y"}>, out_shardings = #sdy.sharding_per_value<[<@m, [{"x"}, {"y"}]>]>} : (tensor<8x16xf32>) -> tensor<8x16xf32>
  %1 = "sdy.manual_computation"(%0, %cst) ({
  ^bb0(%arg1: tensor<2x8xf32>, %arg2: tensor<2x8xf32>):
    %3 = stablehlo.multiply %arg1, %arg2 : tensor<2x8xf32>
    "sdy.return"(%3) : (tensor<2x8xf32>) -> ()
  }) {in_shardings = #sdy.sharding_per_value<[<@m, [{"y"}, {"x"}]>, <@m, [{"y"}, {"x"}]>]>, manual_axes = #sdy<manual_axes{"x", "y"}>, out_shardings = #sdy.sharding_per_value<[<@m, [{"y"}, {"x"}]>]>} : (tensor<8x16xf32>, tensor<8x16xf32>) -> tensor<8x16xf32>
  %2 = stablehlo.add %1, %0 : tensor<8x16xf32>
  return %2 : tensor<8x16xf32>
}

// -----

func.func @main(%arg0: tensor<8x16xf32>) -> tensor<8x16xf32> {
  %0 = stablehlo.slice %arg0 [0:8, 0:12] : (tensor<8x16xf32>) -> tensor<8x12xf32>
  %1 = stablehlo.slice %arg0 [0:8, 12:16] : (tensor<8x16xf32>) -> tensor<8x4xf32>
  %2 = stablehlo.concatenate %1, %0, dim = 1 : (tensor<8x4xf32>, tensor<8x12xf32>) -> tensor<8x16xf32>
  %cst = stablehlo.constant dense<3.000000e+00> : tensor<8x16xf32>
  %3 = stablehlo.multiply %2, %cst : tensor<8x16xf32>
  return %3 : tensor<8x16xf32>
}
