// One computation in another, the first in a loop around.

"sdy.mesh"() {mesh = #sdy.mesh<["x"=2, "y"=4]>, sym_name = "m"} : () -> ()
func.func @main(%arg0: tensor<8x16xf32>) -> tensor<8x16xf32> {
  %c = stablehlo.constant dense<0> : tensor<i32>
  %c_0 = stablehlo.constant dense<3> : tensor<i32>
  %c_1 = stablehlo.constant dense<1> : tensor<i32>
  %0:2 = stablehlo.while(%iterArg = %c, %iterArg_2 = %arg0) : tensor<i32>, tensor<8x16xf32>
  cond {
    %1 = stablehlo.compare LT, %iterArg, %c_0 : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %1 : tensor<i1>
  } do {
    %1 = stablehlo.add %iterArg, %c_1 : tensor<i32>
    %2 = "sdy.manual_computation"(%iterArg_2) ({
    ^bb0(%arg1: tensor<4x16xf32>):
      %3 = "sdy.manual_computation"(%arg1) ({
      ^bb0(%arg2: tensor<4x4xf32>):
        %5 = "stablehlo.collective_permute"(%arg2) <{source_target_pairs = dense<[[0, 1], [1, 2], [2, 3], [3, 0], [4, 5], [5, 6], [6, 7], [7, 4]]> : tensor<8x2xi64>}> : (tensor<4x4xf32>) -> tensor<4x4xf32>
        "sdy.return"(%5) : (tensor<4x4xf32>) -> ()
      }) {in_shardings = #sdy.sharding_per_value<[<@m, [{}, {"y"}]>]>, manual_axes = #sdy<manual_axes{"y"}>, out_shardings = #sdy.sharding_per_value<[<@m, [{}, {"y"}]>]>} : (tensor<4x16xf32>) -> tensor<4x16xf32>
      %4 = stablehlo.tanh %3 : tensor<4x16xf32>
      "sdy.return"(%4) : (tensor<4x16xf32>) -> ()
    }) {in_shardings = #sdy.sharding_per_value<[<@m, [{"x"}, {}]>]>, manual_axes = #sdy<manual_axes{"x"}>, out_shardings = #sdy.sharding_per_value<[<@m, [{"x"}, {}]>]>} : (tensor<8x16xf32>) -> tensor<8x16xf32>
    stablehlo.return %1, %2 : tensor<i32>, tensor<8x16xf32>
  }
  return %0#1 : tensor<8x16xf32>
}

// -----

func.func @main(%arg0: tensor<8x16xf32>) -> tensor<8x16xf32> {
  %0 = stablehlo.slice %arg0 [0:8, 0:4] : (tensor<8x16xf32>) -> tensor<8x4xf32>
  %1 = stablehlo.slice %arg0 [0:8, 4:16] : (tensor<8x16xf32>) -> tensor<8x12xf32>
  %2 = stablehlo.concatenate %1, %0, dim = 1 : (tensor<8x12xf32>, tensor<8x4xf32>) -> tensor<8x16xf32>
  %3 = stablehlo.tanh %2 : tensor<8x16xf32>
  %4 = stablehlo.tanh %3 : tensor<8x16xf32>
  %5 = stablehlo.tanh %4 : tensor<8x16xf32>
  return %5 : tensor<8x16xf32>
}
