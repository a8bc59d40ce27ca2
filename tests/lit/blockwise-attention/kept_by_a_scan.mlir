// What a loop keeps of scores, a row each turn, another loop computes again from what else is kept.
//
// RUN: shard-opt %s --blockwise-attention=block-bytes=256 | filecheck %s

shard.grid @g(shape = 2)

// CHECK-LABEL: func.func @main(
// CHECK-NOT: tensor<3x16x16xf32>
// CHECK: stablehlo.while
// CHECK: stablehlo.dynamic_update_slice {{.*}} -> tensor<3x16x4xf32>
// CHECK: stablehlo.while
// CHECK: %[[ROW:.*]] = stablehlo.dynamic_slice {{.*}} -> tensor<1x16x4xf32>
// CHECK: %[[X:.*]] = stablehlo.reshape %[[ROW]]
// CHECK: scf.for
// CHECK: stablehlo.dot_general %[[X]], {{.*}} -> tensor<16x4xf32>
func.func @main(%x: tensor<16x4xf32> {mesh.argument = tensor<16x4xf32>})
    -> (tensor<16x4xf32> {mesh.result = tensor<16x4xf32>}) attributes {mesh.form = "local"} {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %three = stablehlo.constant dense<3> : tensor<i32>
  %f = stablehlo.constant dense<0.0> : tensor<f32>
  %s0 = stablehlo.broadcast_in_dim %f, dims = [] : (tensor<f32>) -> tensor<3x16x16xf32>
  %q0 = stablehlo.broadcast_in_dim %f, dims = [] : (tensor<f32>) -> tensor<3x16x4xf32>
  %y0 = stablehlo.broadcast_in_dim %f, dims = [] : (tensor<f32>) -> tensor<16x4xf32>
  %n, %a, %ss, %qs = stablehlo.while(%i = %zero, %h = %x, %s = %s0, %q = %q0)
      : tensor<i32>, tensor<16x4xf32>, tensor<3x16x16xf32>, tensor<3x16x4xf32>
  cond {
    %c = stablehlo.compare LT, %i, %three : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  } do {
    %d = stablehlo.dot_general %h, %h, contracting_dims = [1] x [1] : (tensor<16x4xf32>, tensor<16x4xf32>) -> tensor<16x16xf32>
    %e = stablehlo.tanh %d : tensor<16x16xf32>
    %row = stablehlo.reshape %e : (tensor<16x16xf32>) -> tensor<1x16x16xf32>
    %kept = stablehlo.dynamic_update_slice %s, %row, %i, %zero, %zero : (tensor<3x16x16xf32>, tensor<1x16x16xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<3x16x16xf32>
    %own = stablehlo.reshape %h : (tensor<16x4xf32>) -> tensor<1x16x4xf32>
    %all = stablehlo.dynamic_update_slice %q, %own, %i, %zero, %zero : (tensor<3x16x4xf32>, tensor<1x16x4xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<3x16x4xf32>
    %o = stablehlo.dot_general %e, %h, contracting_dims = [1] x [0] : (tensor<16x16xf32>, tensor<16x4xf32>) -> tensor<16x4xf32>
    %j = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %j, %o, %kept, %all : tensor<i32>, tensor<16x4xf32>, tensor<3x16x16xf32>, tensor<3x16x4xf32>
  }
  %m, %b, %p, %r = stablehlo.while(%i = %zero, %y = %y0, %s = %ss, %q = %qs)
      : tensor<i32>, tensor<16x4xf32>, tensor<3x16x16xf32>, tensor<3x16x4xf32>
  cond {
    %c = stablehlo.compare LT, %i, %three : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  } do {
    %row = stablehlo.dynamic_slice %s, %i, %zero, %zero, sizes = [1, 16, 16] : (tensor<3x16x16xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x16x16xf32>
    %e = stablehlo.reshape %row : (tensor<1x16x16xf32>) -> tensor<16x16xf32>
    %own = stablehlo.dynamic_slice %q, %i, %zero, %zero, sizes = [1, 16, 4] : (tensor<3x16x4xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x16x4xf32>
    %h = stablehlo.reshape %own : (tensor<1x16x4xf32>) -> tensor<16x4xf32>
    %o = stablehlo.dot_general %e, %h, contracting_dims = [0] x [0] : (tensor<16x16xf32>, tensor<16x4xf32>) -> tensor<16x4xf32>
    %sum = stablehlo.add %y, %o : tensor<16x4xf32>
    %j = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %j, %sum, %s, %q : tensor<i32>, tensor<16x4xf32>, tensor<3x16x16xf32>, tensor<3x16x4xf32>
  }
  return %b : tensor<16x4xf32>
}
