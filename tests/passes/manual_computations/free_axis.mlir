// One axis is manual, the other splits what is in the region further.

"sdy.mesh"() {mesh = #sdy.mesh<["x"=2, "y"=4]>, sym_name = "m"} : () -> ()
func.func @main(%arg0: tensor<8x16xf32>, %arg1: tensor<16x8xf32>) -> tensor<8x8xf32> {
  %0 = "sdy.sharding_constraint"(%arg0) {sharding = #sdy.sharding<@m, [{"x"}, {}]>} : (tensor<8x16xf32>) -> tensor<8x16xf32>
  %1 = "sdy.manual_computation"(%0, %arg1) ({
  ^bb0(%arg2: tensor<8x4xf32>, %arg3: tensor<4x8xf32>):
    %3 = stablehlo.tanh %arg2 : tensor<8x4xf32>
    %4 = stablehlo.dot_general %3, %arg3, contracting_dims = [1] x [0] : (tensor<8x4xf32>, tensor<4x8xf32>) -> tensor<8x8xf32>
    %5 = "stablehlo.all_reduce"(%4) <{replica_groups = dense<[[0, 1, 2, 3], [4, 5, 6, 7]]> : tensor<2x4xi64>}> ({
    ^bb0(%arg4: tensor<f32>, %arg5: tensor<f32>):
      %6 = stablehlo.add %arg4, %arg5 : tensor<f32>
      stablehlo.return %6 : tensor<f32>
    }) : (tensor<8x8xf32>) -> tensor<8x8xf32>
    "sdy.return"(%5) : (tensor<8x8xf32>) -> ()
  }) {in_shardings = #sdy.sharding_per_value<[<@m, [{?}, {"y", ?}]>, <@m, [{"y", ?}, {?}]>]>, manual_axes = #sdy<manual_axes{"y"}>, out_shardings = #sdy.sharding_per_value<[<@m, [{?}, {?}]>]>} : (tensor<8x16xf32>, tensor<16x8xf32>) -> tensor<8x8xf32>
  %2 = "sdy.sharding_constraint"(%1) {sharding = #sdy.sharding<@m, [{"x"}, {}]>} : (tensor<8x8xf32>) -> tensor<8x8xf32>
  return %2 : tensor<8x8xf32>
}

// -----

func.func @main(%arg0: tensor<8x16xf32>, %arg1: tensor<16x8xf32>) -> tensor<8x8xf32> {
  %0 = stablehlo.tanh %arg0 : tensor<8x16xf32>
  %1 = stablehlo.dot_general %0, %arg1, contracting_dims = [1] x [0] : (tensor<8x16xf32>, tensor<16x8xf32>) -> tensor<8x8xf32>
  return %1 : tensor<8x8xf32>
}
