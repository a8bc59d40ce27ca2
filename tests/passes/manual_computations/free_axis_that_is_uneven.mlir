// Along a free axis the shards in a region may be uneven, but not where they are shards of shards.

"sdy.mesh"() <{mesh = #sdy.mesh<["x"=2, "y"=4]>, sym_name = "m"}> : () -> ()
func.func @main(%x: tensor<12x7xf32> {sdy.sharding = #sdy.sharding<@m, [{"x", "y"}, {}]>}, %y: tensor<12x7xf32> {sdy.sharding = #sdy.sharding<@m, [{"x"}, {"y"}]>}) -> (tensor<12x7xf32>, tensor<7xf32>) {
  %0, %1 = "sdy.manual_computation"(%x, %y) <{in_shardings = #sdy.sharding_per_value<[<@m, [{"x", ?}, {?}]>, <@m, [{"x", ?}, {?}]>]>, manual_axes = #sdy<manual_axes{"x"}>, out_shardings = #sdy.sharding_per_value<[<@m, [{"x", ?}, {?}]>, <@m, [{?}]>]>}> ({
  ^bb0(%a: tensor<6x7xf32>, %b: tensor<6x7xf32>):
    %z = stablehlo.constant dense<0.0> : tensor<f32>
    %c = stablehlo.tanh %a : tensor<6x7xf32>
    %e = stablehlo.cosine %b : tensor<6x7xf32>
    %f = stablehlo.reduce(%e init: %z) applies stablehlo.add across dimensions = [0] : (tensor<6x7xf32>, tensor<f32>) -> tensor<7xf32>
    %d = "stablehlo.all_reduce"(%f) <{replica_groups = dense<[[0, 4], [1, 5], [2, 6], [3, 7]]> : tensor<4x2xi64>}> ({
    ^bb0(%p: tensor<f32>, %q: tensor<f32>):
      %s = stablehlo.add %p, %q : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<7xf32>) -> tensor<7xf32>
    "sdy.return"(%c, %d) : (tensor<6x7xf32>, tensor<7xf32>) -> ()
  }) : (tensor<12x7xf32>, tensor<12x7xf32>) -> (tensor<12x7xf32>, tensor<7xf32>)
  return %0, %1 : tensor<12x7xf32>, tensor<7xf32>
}

// -----

func.func @main(%x: tensor<12x7xf32>, %y: tensor<12x7xf32>) -> (tensor<12x7xf32>, tensor<7xf32>) {
  %z = stablehlo.constant dense<0.0> : tensor<f32>
  %0 = stablehlo.tanh %x : tensor<12x7xf32>
  %1 = stablehlo.cosine %y : tensor<12x7xf32>
  %2 = stablehlo.reduce(%1 init: %z) applies stablehlo.add across dimensions = [0] : (tensor<12x7xf32>, tensor<f32>) -> tensor<7xf32>
  return %0, %2 : tensor<12x7xf32>, tensor<7xf32>
}
