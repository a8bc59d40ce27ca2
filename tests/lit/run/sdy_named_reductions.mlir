// Newer versions of Shardy name the reduction of a collective, and say that its result is replicated.
//
// REQUIRES: jaxlib
// RUN: shard-opt %s --spmd | filecheck %s
// RUN: shard-run %s --check

sdy.mesh @m = <["x"=2, "y"=2]>
// CHECK-LABEL: func.func @main
// CHECK: shard.all_reduce {{.*}} reduction = max
// CHECK: shard.reduce_scatter {{.*}} reduction = min
func.func @main(%x: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@m, [{"y"}, {"x"}]>}) -> (tensor<8xf32>, tensor<8xf32>) {
  %low = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %0 = stablehlo.reduce(%x init: %low) applies stablehlo.maximum across dimensions = [1] {sdy.sharding = #sdy.sharding_per_value<[<@m, [{"y"}], unreduced={"x"}>]>} : (tensor<8x8xf32>, tensor<f32>) -> tensor<8xf32>
  %1 = sdy.all_reduce max {"x"} %0 out_sharding=<@m, [{"y"}], replicated={"x"}> : tensor<8xf32>
  %high = stablehlo.constant dense<0x7F800000> : tensor<f32>
  %2 = stablehlo.reduce(%x init: %high) applies stablehlo.minimum across dimensions = [1] {sdy.sharding = #sdy.sharding_per_value<[<@m, [{"y"}], unreduced={"x"}>]>} : (tensor<8x8xf32>, tensor<f32>) -> tensor<8xf32>
  %3 = sdy.reduce_scatter min [{"x"}] %2 out_sharding=<@m, [{"y", "x"}]> : tensor<8xf32>
  return %1, %3 : tensor<8xf32>, tensor<8xf32>
}
