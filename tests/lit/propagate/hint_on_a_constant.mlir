// A soft constraint on a constant holds for the annotation's result: each user of the constant gets
// its own copy.
//
// RUN: shard-opt %s --propagate | filecheck %s
// RUN: shard-run %s --check | filecheck %s --check-prefix=NUMBERS
// CHECK: stablehlo.add {{.*}}[{{\[}}0], []]
// NUMBERS: check passed

"mesh.cluster"() {sym_name = "g", rank = 1 : i64, dim_sizes = [2]} : () -> ()
func.func @main(%x: tensor<4x8xf32>) -> tensor<4x8xf32> attributes {mesh_cluster = @g} {
  %c = stablehlo.constant dense<1.0> : tensor<4x8xf32>
  %h = "mesh.annotate"(%c) {sharding = [[0]], required = false} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %s = stablehlo.constant dense<1.0> : tensor<f32>
  %r = stablehlo.reduce(%x init: %s) applies stablehlo.add across dimensions = [1] : (tensor<4x8xf32>, tensor<f32>) -> tensor<4xf32>
  %0 = stablehlo.add %x, %h : tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}
