// Newer versions of Shardy number the reduction of a collective: 1 is a maximum.
//
// RUN: shard-opt %s --spmd | filecheck %s
// RUN: shard-run %s --check

"sdy.mesh"() <{mesh = #sdy.mesh<["x"=2, "y"=2]>, sym_name = "m"}> : () -> ()
// CHECK-LABEL: func.func @main
// CHECK: shard.all_reduce {{.*}} reduction = max
func.func @main(%x: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@m, [{"y"}, {"x"}]>}) -> tensor<8xf32> {
  %z = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %0 = stablehlo.reduce(%x init: %z) applies stablehlo.maximum across dimensions = [1] : (tensor<8x8xf32>, tensor<f32>) -> tensor<8xf32>
  %1 = "sdy.all_reduce"(%0) <{reduction_axes = #sdy<axis_ref_list{"x"}>, reduction_op = 1 : i32, out_sharding = #sdy.sharding<@m, [{"y"}]>}> : (tensor<8xf32>) -> tensor<8xf32>
  return %1 : tensor<8xf32>
}
