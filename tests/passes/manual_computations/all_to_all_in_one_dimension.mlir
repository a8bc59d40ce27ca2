// An exchange within a dimension.

"sdy.mesh"() {mesh = #sdy.mesh<["x"=2, "y"=4]>, sym_name = "m"} : () -> ()
func.func @main(%arg0: tensor<8x16xf32>) -> tensor<8x16xf32> {
  %0 = "sdy.manual_computation"(%arg0) ({
  ^bb0(%arg1: tensor<2x16xf32>):
    %1 = "stablehlo.all_to_all"(%arg1) <{concat_dimension = 1 : i64, replica_groups = dense<[[0, 1, 2, 3], [4, 5, 6, 7]]> : tensor<2x4xi64>, split_count = 4 : i64, split_dimension = 1 : i64}> : (tensor<2x16xf32>) -> tensor<2x16xf32>
    "sdy.return"(%1) : (tensor<2x16xf32>) -> ()
  }) {in_shardings = #sdy.sharding_per_value<[<@m, [{"y"}, {}]>]>, manual_axes = #sdy<manual_axes{"x", "y"}>, out_shardings = #sdy.sharding_per_value<[<@m, [{"y"}, {}]>]>} : (tensor<8x16xf32>) -> tensor<8x16xf32>
  return %0 : tensor<8x16xf32>
}

// -----

func.func @main(%arg0: tensor<8x16xf32>) -> tensor<8x16xf32> {
  %0 = stablehlo.reshape %arg0 : (tensor<8x16xf32>) -> tensor<4x2x4x4xf32>
  %1 = stablehlo.transpose %0, dims = [2, 1, 0, 3] : (tensor<4x2x4x4xf32>) -> tensor<4x2x4x4xf32>
  %2 = stablehlo.reshape %1 : (tensor<4x2x4x4xf32>) -> tensor<8x16xf32>
  return %2 : tensor<8x16xf32>
}
