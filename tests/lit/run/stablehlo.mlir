// A StableHLO program with Shardy's annotations, as JAX emits it, is cut and run like any other.
//
// RUN: shard-run %s --check | filecheck %s
// RUN: shard-opt %s --spmd | filecheck %s --check-prefix=LOCAL

// CHECK: all_reduce    model
// CHECK: check passed

"sdy.mesh"() <{mesh = #sdy.mesh<["data"=2, "model"=2]>, sym_name = "mesh"}> : () -> ()

// LOCAL: stablehlo.dot_general
// LOCAL-SAME: (tensor<4x16xf32>, tensor<16x32xf32>) -> tensor<4x32xf32>
// LOCAL: stablehlo.maximum
// LOCAL-SAME: tensor<4x32xf32>
// LOCAL: stablehlo.dot_general
// LOCAL-SAME: (tensor<4x32xf32>, tensor<32x16xf32>) -> tensor<4x16xf32>
// LOCAL: shard.all_reduce
func.func public @main(
    %x: tensor<8x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>},
    %w1: tensor<16x64xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"model"}]>},
    %w2: tensor<64x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"model"}, {}]>})
    -> (tensor<8x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}) {
  %0 = stablehlo.dot_general %x, %w1, contracting_dims = [1] x [0]
    : (tensor<8x16xf32>, tensor<16x64xf32>) -> tensor<8x64xf32>
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %zeros = stablehlo.broadcast_in_dim %zero, dims = [] : (tensor<f32>) -> tensor<8x64xf32>
  %1 = stablehlo.maximum %0, %zeros : tensor<8x64xf32>
  %2 = stablehlo.dot_general %1, %w2, contracting_dims = [1] x [0]
    : (tensor<8x64xf32>, tensor<64x16xf32>) -> tensor<8x16xf32>
  return %2 : tensor<8x16xf32>
}
