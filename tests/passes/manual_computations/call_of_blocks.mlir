// A function of several blocks in a body.

"sdy.mesh"() {mesh = #sdy.mesh<["x"=2, "y"=4]>, sym_name = "m"} : () -> ()
func.func @main(%arg0: tensor<i1>, %arg1: tensor<8x16xf32>) -> tensor<8x16xf32> {
  %0 = "sdy.manual_computation"(%arg0, %arg1) ({
  ^bb0(%arg2: tensor<i1>, %arg3: tensor<4x4xf32>):
    %1 = func.call @choose(%arg2, %arg3) : (tensor<i1>, tensor<4x4xf32>) -> tensor<4x4xf32>
    "sdy.return"(%1) : (tensor<4x4xf32>) -> ()
  }) {in_shardings = #sdy.sharding_per_value<[<@m, []>, <@m, [{"x"}, {"y"}]>]>, manual_axes = #sdy<manual_axes{"x", "y"}>, out_shardings = #sdy.sharding_per_value<[<@m, [{"x"}, {"y"}]>]>} : (tensor<i1>, tensor<8x16xf32>) -> tensor<8x16xf32>
  return %0 : tensor<8x16xf32>
}
func.func private @choose(%arg0: tensor<i1>, %arg1: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %extracted = tensor.extract %arg0[] : tensor<i1>
  cf.cond_br %extracted, ^bb1, ^bb2
^bb1:  // pred: ^bb0
  %0 = "stablehlo.collective_permute"(%arg1) <{source_target_pairs = dense<[[0, 1], [1, 2], [2, 3], [3, 0], [4, 5], [5, 6], [6, 7], [7, 4]]> : tensor<8x2xi64>}> : (tensor<4x4xf32>) -> tensor<4x4xf32>
  return %0 : tensor<4x4xf32>
^bb2:  // pred: ^bb0
  %1 = stablehlo.negate %arg1 : tensor<4x4xf32>
  return %1 : tensor<4x4xf32>
}

// -----

func.func @main(%arg0: tensor<i1>, %arg1: tensor<8x16xf32>) -> tensor<8x16xf32> {
  %0 = stablehlo.slice %arg1 [0:8, 0:12] : (tensor<8x16xf32>) -> tensor<8x12xf32>
  %1 = stablehlo.slice %arg1 [0:8, 12:16] : (tensor<8x16xf32>) -> tensor<8x4xf32>
  %2 = stablehlo.concatenate %1, %0, dim = 1 : (tensor<8x4xf32>, tensor<8x12xf32>) -> tensor<8x16xf32>
  %3 = stablehlo.negate %arg1 : tensor<8x16xf32>
  %4 = stablehlo.select %arg0, %2, %3 : tensor<i1>, tensor<8x16xf32>
  return %4 : tensor<8x16xf32>
}
