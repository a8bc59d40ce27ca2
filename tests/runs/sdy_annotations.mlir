sdy.mesh @m = <["x"=2, "y"=2]>
func.func @main(%a: tensor<8x6xf32> {sdy.sharding = #sdy.sharding<@m, [{"x"}, {?}]>},
                %b: tensor<6x4xf32>, %c: tensor<8x4xf32>) -> (tensor<8x4xf32>, tensor<8x4xf32>) {
  %0 = sdy.sharding_constraint %a <@m, [{"x"}, {"y"}]> : tensor<8x6xf32>
  %1 = stablehlo.dot_general %0, %b, contracting_dims = [1] x [0]
    : (tensor<8x6xf32>, tensor<6x4xf32>) -> tensor<8x4xf32>
  %2 = sdy.reshard %1 <@m, [{"y"}, {"x"}]> : tensor<8x4xf32>
  "sdy.sharding_group"(%2) <{group_id = 0 : i64}> : (tensor<8x4xf32>) -> ()
  "sdy.sharding_group"(%c) <{group_id = 0 : i64}> : (tensor<8x4xf32>) -> ()
  %3 = "sdy.propagation_barrier"(%2) <{allowed_direction = 1 : i32}>
    : (tensor<8x4xf32>) -> tensor<8x4xf32>
  %4 = stablehlo.tanh %3 {sdy.sharding_rule = #sdy.op_sharding_rule<([i, j])->([i, j]) {i=8, j=4}>}
    : tensor<8x4xf32>
  %5 = stablehlo.exponential %c : tensor<8x4xf32>
  return %4, %5 : tensor<8x4xf32>, tensor<8x4xf32>
}
