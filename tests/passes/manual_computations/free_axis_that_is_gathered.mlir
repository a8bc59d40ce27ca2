// The region needs a dimension whole along the free axis that splits it outside.

"sdy.mesh"() <{mesh = #sdy.mesh<["x"=2, "y"=4]>, sym_name = "m"}> : () -> ()
func.func @main(%x: tensor<8x16xf32> {sdy.sharding = #sdy.sharding<@m, [{"x", "y"}, {}]>}) -> (tensor<8x32xf32> {sdy.sharding = #sdy.sharding<@m, [{"x"}, {"y"}]>}) {
  %0 = "sdy.manual_computation"(%x) <{in_shardings = #sdy.sharding_per_value<[<@m, [{"x", ?}, {?}]>]>, manual_axes = #sdy<manual_axes{"x"}>, out_shardings = #sdy.sharding_per_value<[<@m, [{"x", ?}, {?}]>]>}> ({
  ^bb0(%a: tensor<4x16xf32>):
    %b = stablehlo.reverse %a, dims = [0] : tensor<4x16xf32>
    %c = stablehlo.exponential %b : tensor<4x16xf32>
    %d = "stablehlo.all_gather"(%c) <{all_gather_dim = 1 : i64, replica_groups = dense<[[0, 4], [1, 5], [2, 6], [3, 7]]> : tensor<4x2xi64>}> : (tensor<4x16xf32>) -> tensor<4x32xf32>
    "sdy.return"(%d) : (tensor<4x32xf32>) -> ()
  }) : (tensor<8x16xf32>) -> tensor<8x32xf32>
  return %0 : tensor<8x32xf32>
}

// -----

func.func @main(%x: tensor<8x16xf32>) -> tensor<8x32xf32> {
  %0 = stablehlo.reshape %x : (tensor<8x16xf32>) -> tensor<2x4x16xf32>
  %1 = stablehlo.reverse %0, dims = [1] : tensor<2x4x16xf32>
  %2 = stablehlo.exponential %1 : tensor<2x4x16xf32>
  %3 = stablehlo.transpose %2, dims = [1, 0, 2] : (tensor<2x4x16xf32>) -> tensor<4x2x16xf32>
  %4 = stablehlo.reshape %3 : (tensor<4x2x16xf32>) -> tensor<4x32xf32>
  %5 = stablehlo.concatenate %4, %4, dim = 0 : (tensor<4x32xf32>, tensor<4x32xf32>) -> tensor<8x32xf32>
  return %5 : tensor<8x32xf32>
}
