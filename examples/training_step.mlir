// One step of training a perceptron of four layers: forward, backward, and new weights. The pass
// `pipeline` makes a pipeline of four stages and eight microbatches of it:
//
//   shard-opt examples/training_step.mlir --pipeline="stages=4 microbatches=8 arguments='0,1'" \
//     | shard-run - --check --reference=examples/training_step.mlir
shard.grid @grid(shape = 4)
func.func @main(%x: tensor<32x16xf32>, %y: tensor<32x16xf32>, %w0: tensor<16x16xf32>, %w1: tensor<16x16xf32>, %w2: tensor<16x16xf32>, %w3: tensor<16x16xf32>) -> (tensor<f32>, tensor<16x16xf32>, tensor<16x16xf32>, tensor<16x16xf32>, tensor<16x16xf32>) {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %one = stablehlo.constant dense<1.0> : tensor<32x16xf32>
  %scale = stablehlo.constant dense<0.00390625> : tensor<32x16xf32>
  %rate = stablehlo.constant dense<0.1> : tensor<16x16xf32>
  %z0 = stablehlo.dot_general %x, %w0, contracting_dims = [1] x [0] : (tensor<32x16xf32>, tensor<16x16xf32>) -> tensor<32x16xf32>
  %h0 = stablehlo.tanh %z0 : tensor<32x16xf32>
  %z1 = stablehlo.dot_general %h0, %w1, contracting_dims = [1] x [0] : (tensor<32x16xf32>, tensor<16x16xf32>) -> tensor<32x16xf32>
  %h1 = stablehlo.tanh %z1 : tensor<32x16xf32>
  %z2 = stablehlo.dot_general %h1, %w2, contracting_dims = [1] x [0] : (tensor<32x16xf32>, tensor<16x16xf32>) -> tensor<32x16xf32>
  %h2 = stablehlo.tanh %z2 : tensor<32x16xf32>
  %z3 = stablehlo.dot_general %h2, %w3, contracting_dims = [1] x [0] : (tensor<32x16xf32>, tensor<16x16xf32>) -> tensor<32x16xf32>
  %h3 = stablehlo.tanh %z3 : tensor<32x16xf32>
  %e = stablehlo.subtract %h3, %y : tensor<32x16xf32>
  %s = stablehlo.multiply %e, %e : tensor<32x16xf32>
  %loss = stablehlo.reduce(%s init: %zero) applies stablehlo.add across dimensions = [0, 1] : (tensor<32x16xf32>, tensor<f32>) -> tensor<f32>
  %g4 = stablehlo.multiply %e, %scale : tensor<32x16xf32>
  %q3 = stablehlo.multiply %h3, %h3 : tensor<32x16xf32>
  %r3 = stablehlo.subtract %one, %q3 : tensor<32x16xf32>
  %d3 = stablehlo.multiply %g4, %r3 : tensor<32x16xf32>
  %u3 = stablehlo.dot_general %h2, %d3, contracting_dims = [0] x [0] : (tensor<32x16xf32>, tensor<32x16xf32>) -> tensor<16x16xf32>
  %g3 = stablehlo.dot_general %d3, %w3, contracting_dims = [1] x [1] : (tensor<32x16xf32>, tensor<16x16xf32>) -> tensor<32x16xf32>
  %v3 = stablehlo.multiply %u3, %rate : tensor<16x16xf32>
  %n3 = stablehlo.subtract %w3, %v3 : tensor<16x16xf32>
  %q2 = stablehlo.multiply %h2, %h2 : tensor<32x16xf32>
  %r2 = stablehlo.subtract %one, %q2 : tensor<32x16xf32>
  %d2 = stablehlo.multiply %g3, %r2 : tensor<32x16xf32>
  %u2 = stablehlo.dot_general %h1, %d2, contracting_dims = [0] x [0] : (tensor<32x16xf32>, tensor<32x16xf32>) -> tensor<16x16xf32>
  %g2 = stablehlo.dot_general %d2, %w2, contracting_dims = [1] x [1] : (tensor<32x16xf32>, tensor<16x16xf32>) -> tensor<32x16xf32>
  %v2 = stablehlo.multiply %u2, %rate : tensor<16x16xf32>
  %n2 = stablehlo.subtract %w2, %v2 : tensor<16x16xf32>
  %q1 = stablehlo.multiply %h1, %h1 : tensor<32x16xf32>
  %r1 = stablehlo.subtract %one, %q1 : tensor<32x16xf32>
  %d1 = stablehlo.multiply %g2, %r1 : tensor<32x16xf32>
  %u1 = stablehlo.dot_general %h0, %d1, contracting_dims = [0] x [0] : (tensor<32x16xf32>, tensor<32x16xf32>) -> tensor<16x16xf32>
  %g1 = stablehlo.dot_general %d1, %w1, contracting_dims = [1] x [1] : (tensor<32x16xf32>, tensor<16x16xf32>) -> tensor<32x16xf32>
  %v1 = stablehlo.multiply %u1, %rate : tensor<16x16xf32>
  %n1 = stablehlo.subtract %w1, %v1 : tensor<16x16xf32>
  %q0 = stablehlo.multiply %h0, %h0 : tensor<32x16xf32>
  %r0 = stablehlo.subtract %one, %q0 : tensor<32x16xf32>
  %d0 = stablehlo.multiply %g1, %r0 : tensor<32x16xf32>
  %u0 = stablehlo.dot_general %x, %d0, contracting_dims = [0] x [0] : (tensor<32x16xf32>, tensor<32x16xf32>) -> tensor<16x16xf32>
  %v0 = stablehlo.multiply %u0, %rate : tensor<16x16xf32>
  %n0 = stablehlo.subtract %w0, %v0 : tensor<16x16xf32>
  return %loss, %n0, %n1, %n2, %n3 : tensor<f32>, tensor<16x16xf32>, tensor<16x16xf32>, tensor<16x16xf32>, tensor<16x16xf32>
}
