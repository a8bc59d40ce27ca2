// One axis of two that split a dimension is manual.

"sdy.mesh"() {mesh = #sdy.mesh<["x"=2, "y"=4]>, sym_name = "m"} : () -> ()
func.func @main(%arg0: tensor<8x16xf32>) -> tensor<8x16xf32> {
  %0 = "sdy.sharding_constraint"(%arg0) {sharding = #sdy.sharding<@m, [{"x", "y"}, {}]>} : (tensor<8x16xf32>) -> tensor<8x16xf32>
  %1 = "sdy.manual_computation"(%0) ({
  ^bb0(%arg1: tensor<4x16xf32>):
    %2 = "stablehlo.all_reduce"(%arg1) <{replica_groups = dense<[[0, 4], [1, 5], [2, 6], [3, 7]]> : tensor<4x2xi64>}> ({
    ^bb0(%arg2: tensor<f32>, %arg3: tensor<f32>):
      %4 = stablehlo.add %arg2, %arg3 : tensor<f32>
      stablehlo.return %4 : tensor<f32>
    }) : (tensor<4x16xf32>) -> tensor<4x16xf32>
    %3 = stablehlo.multiply %arg1, %2 : tensor<4x16xf32>
    "sdy.return"(%3) : (tensor<4x16xf32>) -> ()
  }) {in_shardings = #sdy.sharding_per_value<[<@m, [{"x", "y"}, {}]>]>, manual_axes = #sdy<manual_axes{"x"}>, out_shardings = #sdy.sharding_per_value<[<@m, [{"x", "y"}, {}]>]>} : (tensor<8x16xf32>) -> tensor<8x16xf32>
  return %1 : tensor<8x16xf32>
}

// -----

func.func @main(%arg0: tensor<8x16xf32>) -> tensor<8x16xf32> {
  %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
  %0 = stablehlo.reshape %arg0 : (tensor<8x16xf32>) -> tensor<2x4x16xf32>
  %1 = stablehlo.reduce(%0 init: %cst) applies stablehlo.add across dimensions = [0] : (tensor<2x4x16xf32>, tensor<f32>) -> tensor<4x16xf32>
  %2 = stablehlo.broadcast_in_dim %1, dims = [1, 2] : (tensor<4x16xf32>) -> tensor<2x4x16xf32>
  %3 = stablehlo.multiply %0, %2 : tensor<2x4x16xf32>
  %4 = stablehlo.reshape %3 : (tensor<2x4x16xf32>) -> tensor<8x16xf32>
  return %4 : tensor<8x16xf32>
}
