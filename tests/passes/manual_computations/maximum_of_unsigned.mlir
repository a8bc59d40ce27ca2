// Unsigned integers, whose largest is not the largest signed one; parts of which not all are sent on.

"sdy.mesh"() {mesh = #sdy.mesh<["x"=2, "y"=4]>, sym_name = "m"} : () -> ()
func.func @main(%arg0: tensor<8x16xui8>) -> tensor<4x4xui8> {
  %0 = "sdy.manual_computation"(%arg0) ({
  ^bb0(%arg1: tensor<4x4xui8>):
    %1 = "stablehlo.collective_permute"(%arg1) <{source_target_pairs = dense<[[0, 1], [1, 2], [2, 3], [4, 5], [5, 6], [6, 7]]> : tensor<6x2xi64>}> : (tensor<4x4xui8>) -> tensor<4x4xui8>
    %2 = "stablehlo.all_reduce"(%1) <{replica_groups = dense<[[0, 4, 1, 5, 2, 6, 3, 7]]> : tensor<1x8xi64>}> ({
    ^bb0(%arg2: tensor<ui8>, %arg3: tensor<ui8>):
      %3 = stablehlo.maximum %arg2, %arg3 : tensor<ui8>
      stablehlo.return %3 : tensor<ui8>
    }) : (tensor<4x4xui8>) -> tensor<4x4xui8>
    "sdy.return"(%2) : (tensor<4x4xui8>) -> ()
  }) {in_shardings = #sdy.sharding_per_value<[<@m, [{"x"}, {"y"}]>]>, manual_axes = #sdy<manual_axes{"x", "y"}>, out_shardings = #sdy.sharding_per_value<[<@m, [{}, {}]>]>} : (tensor<8x16xui8>) -> tensor<4x4xui8>
  return %0 : tensor<4x4xui8>
}

// -----

func.func @main(%arg0: tensor<8x16xui8>) -> tensor<4x4xui8> {
  %cst = stablehlo.constant dense<0> : tensor<ui8>
  %0 = stablehlo.slice %arg0 [0:8, 0:12] : (tensor<8x16xui8>) -> tensor<8x12xui8>
  %1 = stablehlo.reshape %0 : (tensor<8x12xui8>) -> tensor<2x4x3x4xui8>
  %2 = stablehlo.reduce(%1 init: %cst) applies stablehlo.maximum across dimensions = [0, 2] : (tensor<2x4x3x4xui8>, tensor<ui8>) -> tensor<4x4xui8>
  return %2 : tensor<4x4xui8>
}
