// Parts of an axis are in use elsewhere.

"sdy.mesh"() {mesh = #sdy.mesh<["x"=2, "y"=4]>, sym_name = "m"} : () -> ()
func.func @main(%arg0: tensor<8x16xf32>) -> tensor<8x16xf32> {
  %0 = "sdy.sharding_constraint"(%arg0) {sharding = #sdy.sharding<@m, [{"y":(1)2}, {"x"}]>} : (tensor<8x16xf32>) -> tensor<8x16xf32>
  %1 = "sdy.manual_computation"(%0) ({
  ^bb0(%arg1: tensor<4x4xf32>):
    %2 = "stablehlo.collective_permute"(%arg1) <{source_target_pairs = dense<[[0, 1], [1, 2], [2, 3], [3, 0], [4, 5], [5, 6], [6, 7], [7, 4]]> : tensor<8x2xi64>}> : (tensor<4x4xf32>) -> tensor<4x4xf32>
    "sdy.return"(%2) : (tensor<4x4xf32>) -> ()
  }) {in_shardings = #sdy.sharding_per_value<[<@m, [{"x"}, {"y"}]>]>, manual_axes = #sdy<manual_axes{"x", "y"}>, out_shardings = #sdy.sharding_per_value<[<@m, [{"x"}, {"y"}]>]>} : (tensor<8x16xf32>) -> tensor<8x16xf32>
  return %1 : tensor<8x16xf32>
}

// -----

func.func @main(%arg0: tensor<8x16xf32>) -> tensor<8x16xf32> {
  %0 = stablehlo.slice %arg0 [0:8, 0:12] : (tensor<8x16xf32>) -> tensor<8x12xf32>
  %1 = stablehlo.slice %arg0 [0:8, 12:16] : (tensor<8x16xf32>) -> tensor<8x4xf32>
  %2 = stablehlo.concatenate %1, %0, dim = 1 : (tensor<8x4xf32>, tensor<8x12xf32>) -> tensor<8x16xf32>
  return %2 : tensor<8x16xf32>
}
