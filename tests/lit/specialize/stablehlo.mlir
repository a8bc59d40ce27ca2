// Sizes that StableHLO reads from tensors: dynamic ops become those of known shape.
//
// RUN: shard-opt %s --specialize=shapes=6x8 | filecheck %s
// RUN: shard-run %s --shapes=6x8 --check | filecheck %s --check-prefix=RAN
// RUN: shard-run %s --shapes=3x8 --check | filecheck %s --check-prefix=RAN

// CHECK: stablehlo.dot_general {{.*}} -> tensor<6x16xf32>
// CHECK-NOT: stablehlo.dynamic
// CHECK: stablehlo.broadcast_in_dim {{.*}} -> tensor<6x16xf32>
// CHECK-NOT: tensor<?
// RAN: check passed

"sdy.mesh"() <{mesh = #sdy.mesh<["x"=2, "y"=2]>, sym_name = "g"}> : () -> ()
func.func public @main(%x: tensor<?x8xf32> {sdy.sharding = #sdy.sharding<@g, [{"x"}, {}]>}, %w: tensor<8x16xf32> {sdy.sharding = #sdy.sharding<@g, [{}, {"y"}]>}) -> tensor<?x16xf32> {
  %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<?x8xf32>, tensor<8x16xf32>) -> tensor<?x16xf32>
  %d = stablehlo.get_dimension_size %0, dim = 0 : (tensor<?x16xf32>) -> tensor<i32>
  %d1 = stablehlo.reshape %d : (tensor<i32>) -> tensor<1xi32>
  %c16 = stablehlo.constant dense<16> : tensor<1xi32>
  %sh = stablehlo.concatenate %d1, %c16, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
  %z = stablehlo.constant dense<0.0> : tensor<f32>
  %b = stablehlo.dynamic_broadcast_in_dim %z, %sh, dims = [] : (tensor<f32>, tensor<2xi32>) -> tensor<?x16xf32>
  %r = stablehlo.maximum %0, %b : tensor<?x16xf32>
  %m = stablehlo.reduce(%r init: %z) applies stablehlo.add across dimensions = [1] : (tensor<?x16xf32>, tensor<f32>) -> tensor<?xf32>
  %bb = stablehlo.dynamic_broadcast_in_dim %m, %sh, dims = [0] : (tensor<?xf32>, tensor<2xi32>) -> tensor<?x16xf32>
  %q = stablehlo.divide %r, %bb : tensor<?x16xf32>
  return %q : tensor<?x16xf32>
}
