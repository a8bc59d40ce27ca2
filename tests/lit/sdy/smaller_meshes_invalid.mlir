// RUN: shard-opt %s --propagate --verify-diagnostics

"sdy.mesh"() <{mesh = #sdy.mesh<["x"=2, "y"=4]>, sym_name = "m"}> : () -> ()
"sdy.mesh"() <{mesh = #sdy.mesh<["s"=2, "t"=2]>, sym_name = "small"}> : () -> ()
func.func @half_an_axis(%x: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@m, [{"x"}, {"y"}]>}) -> tensor<8x8xf32> {
  // expected-error@+1 {{'scf.execute_region' op is manual along axes [0] of @small(2x2), which become}}
  %0 = "sdy.manual_computation"(%x) <{in_shardings = #sdy.sharding_per_value<[<@small, [{"s"}, {}]>]>,
      manual_axes = #sdy<manual_axes{"s"}>,
      out_shardings = #sdy.sharding_per_value<[<@small, [{"s"}, {}]>]>}> ({
  ^bb0(%a: tensor<4x8xf32>):
    "sdy.return"(%a) : (tensor<4x8xf32>) -> ()
  }) : (tensor<8x8xf32>) -> tensor<8x8xf32>
  return %0 : tensor<8x8xf32>
}
