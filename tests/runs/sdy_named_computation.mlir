sdy.mesh @m = <["x"=2]>
func.func @main(%a: tensor<8x6xf32>) -> tensor<8x6xf32> {
  %0 = "sdy.named_computation"(%a) <{name = "tanh",
      in_shardings = #sdy.sharding_per_value<[<@m, [{"x"}, {}]>]>,
      out_shardings = #sdy.sharding_per_value<[<@m, [{"x"}, {}]>]>}> ({
  ^bb0(%b: tensor<8x6xf32>):
    %1 = stablehlo.tanh %b : tensor<8x6xf32>
    "sdy.return"(%1) : (tensor<8x6xf32>) -> ()
  }) : (tensor<8x6xf32>) -> tensor<8x6xf32>
  return %0 : tensor<8x6xf32>
}
