// A gather in another order of the axes than the shards'.

"sdy.mesh"() {mesh = #sdy.mesh<["x"=2, "y"=4]>, sym_name = "m"} : () -> ()
func.func @main(%arg0: tensor<16x3xf32>) -> tensor<16x3xf32> {
  %0 = "sdy.manual_computation"(%arg0) ({
  ^bb0(%arg1: tensor<2x3xf32>):
    %1 = "stablehlo.all_gather"(%arg1) <{all_gather_dim = 0 : i64, replica_groups = dense<[[0, 4, 1, 5, 2, 6, 3, 7]]> : tensor<1x8xi64>}> : (tensor<2x3xf32>) -> tensor<16x3xf32>
    "sdy.return"(%1) : (tensor<16x3xf32>) -> ()
  }) {in_shardings = #sdy.sharding_per_value<[<@m, [{"x", "y"}, {}]>]>, manual_axes = #sdy<manual_axes{"x", "y"}>, out_shardings = #sdy.sharding_per_value<[<@m, [{}, {}]>]>} : (tensor<16x3xf32>) -> tensor<16x3xf32>
  return %0 : tensor<16x3xf32>
}

// -----

func.func @main(%arg0: tensor<16x3xf32>) -> tensor<16x3xf32> {
  %0 = stablehlo.reshape %arg0 : (tensor<16x3xf32>) -> tensor<2x4x2x3xf32>
  %1 = stablehlo.transpose %0, dims = [1, 0, 2, 3] : (tensor<2x4x2x3xf32>) -> tensor<4x2x2x3xf32>
  %2 = stablehlo.reshape %1 : (tensor<4x2x2x3xf32>) -> tensor<16x3xf32>
  return %2 : tensor<16x3xf32>
}
