// Axes of size 1 are manual, and split what is not a shard along them.

"sdy.mesh"() <{mesh = #sdy.mesh<["x"=2, "one"=1, "y"=4]>, sym_name = "m"}> : () -> ()
func.func @main(%x: tensor<8x16xf32>) -> tensor<8x16xf32> {
  %0 = "sdy.manual_computation"(%x) <{in_shardings = #sdy.sharding_per_value<[<@m, [{"one", "x"}, {?}]>]>, manual_axes = #sdy<manual_axes{"x", "one"}>, out_shardings = #sdy.sharding_per_value<[<@m, [{"x"}, {"one", ?}]>]>}> ({
  ^bb0(%a: tensor<4x16xf32>):
    %b = "stablehlo.collective_permute"(%a) <{source_target_pairs = dense<[[0, 4], [1, 5], [2, 6], [3, 7], [4, 0], [5, 1], [6, 2], [7, 3]]> : tensor<8x2xi64>}> : (tensor<4x16xf32>) -> tensor<4x16xf32>
    %c = "stablehlo.all_gather"(%b) <{all_gather_dim = 0 : i64, replica_groups = dense<[[0], [1], [2], [3], [4], [5], [6], [7]]> : tensor<8x1xi64>}> : (tensor<4x16xf32>) -> tensor<4x16xf32>
    "sdy.return"(%c) : (tensor<4x16xf32>) -> ()
  }) : (tensor<8x16xf32>) -> tensor<8x16xf32>
  return %0 : tensor<8x16xf32>
}

// -----

func.func @main(%x: tensor<8x16xf32>) -> tensor<8x16xf32> {
  %0 = stablehlo.slice %x [0:4, 0:16] : (tensor<8x16xf32>) -> tensor<4x16xf32>
  %1 = stablehlo.slice %x [4:8, 0:16] : (tensor<8x16xf32>) -> tensor<4x16xf32>
  %2 = stablehlo.concatenate %1, %0, dim = 0 : (tensor<4x16xf32>, tensor<4x16xf32>) -> tensor<8x16xf32>
  return %2 : tensor<8x16xf32>
}
