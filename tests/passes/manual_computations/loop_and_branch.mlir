// A loop, a branch and a constant in a body.

"sdy.mesh"() {mesh = #sdy.mesh<["x"=2, "y"=4]>, sym_name = "m"} : () -> ()
func.func @main(%arg0: tensor<i1>, %arg1: tensor<8x16xf32>) -> tensor<8x16xf32> {
  %0 = "sdy.manual_computation"(%arg0, %arg1) ({
  ^bb0(%arg2: tensor<i1>, %arg3: tensor<4x4xf32>):
    %cst = stablehlo.constant dense<5.000000e-01> : tensor<4x4xf32>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %c_0 = stablehlo.constant dense<2> : tensor<i32>
    %c_1 = stablehlo.constant dense<1> : tensor<i32>
    %1:2 = stablehlo.while(%iterArg = %c, %iterArg_2 = %arg3) : tensor<i32>, tensor<4x4xf32>
    cond {
      %3 = stablehlo.compare LT, %iterArg, %c_0 : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %3 : tensor<i1>
    } do {
      %3 = stablehlo.add %iterArg, %c_1 : tensor<i32>
      %4 = "stablehlo.collective_permute"(%iterArg_2) <{source_target_pairs = dense<[[0, 1], [1, 2], [2, 3], [3, 0], [4, 5], [5, 6], [6, 7], [7, 4]]> : tensor<8x2xi64>}> : (tensor<4x4xf32>) -> tensor<4x4xf32>
      stablehlo.return %3, %4 : tensor<i32>, tensor<4x4xf32>
    }
    %2 = "stablehlo.if"(%arg2) ({
      %3 = stablehlo.multiply %1#1, %cst : tensor<4x4xf32>
      stablehlo.return %3 : tensor<4x4xf32>
    }, {
      %3 = "stablehlo.collective_permute"(%1#1) <{source_target_pairs = dense<[[0, 1], [1, 2], [2, 3], [3, 0], [4, 5], [5, 6], [6, 7], [7, 4]]> : tensor<8x2xi64>}> : (tensor<4x4xf32>) -> tensor<4x4xf32>
      stablehlo.return %3 : tensor<4x4xf32>
    }) : (tensor<i1>) -> tensor<4x4xf32>
    "sdy.return"(%2) : (tensor<4x4xf32>) -> ()
  }) {in_shardings = #sdy.sharding_per_value<[<@m, []>, <@m, [{"x"}, {"y"}]>]>, manual_axes = #sdy<manual_axes{"x", "y"}>, out_shardings = #sdy.sharding_per_value<[<@m, [{"x"}, {"y"}]>]>} : (tensor<i1>, tensor<8x16xf32>) -> tensor<8x16xf32>
  return %0 : tensor<8x16xf32>
}

// -----

func.func @main(%arg0: tensor<i1>, %arg1: tensor<8x16xf32>) -> tensor<8x16xf32> {
  %0 = stablehlo.slice %arg1 [0:8, 0:8] : (tensor<8x16xf32>) -> tensor<8x8xf32>
  %1 = stablehlo.slice %arg1 [0:8, 8:16] : (tensor<8x16xf32>) -> tensor<8x8xf32>
  %2 = stablehlo.concatenate %1, %0, dim = 1 : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x16xf32>
  %cst = stablehlo.constant dense<5.000000e-01> : tensor<8x16xf32>
  %3 = stablehlo.multiply %2, %cst : tensor<8x16xf32>
  %4 = stablehlo.slice %arg1 [0:8, 0:4] : (tensor<8x16xf32>) -> tensor<8x4xf32>
  %5 = stablehlo.slice %arg1 [0:8, 4:16] : (tensor<8x16xf32>) -> tensor<8x12xf32>
  %6 = stablehlo.concatenate %5, %4, dim = 1 : (tensor<8x12xf32>, tensor<8x4xf32>) -> tensor<8x16xf32>
  %7 = stablehlo.select %arg0, %3, %6 : tensor<i1>, tensor<8x16xf32>
  return %7 : tensor<8x16xf32>
}
