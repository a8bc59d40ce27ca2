// From one weight's annotation, through a product and elementwise ops, to the next weight.
//
// RUN: shard-opt %s --propagate --import  | filecheck %s

shard.grid @g(shape = 2x4)

// CHECK{LITERAL}: func.func @main(%arg0: tensor<8x16xf32> {mesh.sharding = #mesh.shard<@g, [[0], []]>}, %arg1: tensor<16x32xf32> {mesh.sharding = #mesh.shard<@g, [[], [1]]>}, %arg2: tensor<32x16xf32> {mesh.sharding = #mesh.shard<@g, [[1], []]>}) -> (tensor<8x16xf32> {mesh.sharding = #mesh.shard<@g, [[0], []]>}) attributes {propagated}
func.func @main(%x: tensor<8x16xf32>, %w1: tensor<16x32xf32>, %w2: tensor<32x16xf32>)
    -> tensor<8x16xf32> {
  %rows = shard.sharding @g split_axes = [[0]] : !shard.sharding
  %columns = shard.sharding @g split_axes = [[], [1]] : !shard.sharding
  %xs = shard.shard %x to %rows : tensor<8x16xf32>
  %w1s = shard.shard %w1 to %columns : tensor<16x32xf32>
  %zero = arith.constant 0.0 : f32
  %e1 = tensor.empty() : tensor<8x32xf32>
  %i1 = linalg.fill ins(%zero : f32) outs(%e1 : tensor<8x32xf32>) -> tensor<8x32xf32>
  // CHECK{LITERAL}: linalg.matmul {mesh.shardings = [#mesh.shard<@g, [[0], [1]]>]} ins(
  %h = linalg.matmul ins(%xs, %w1s : tensor<8x16xf32>, tensor<16x32xf32>)
                     outs(%i1 : tensor<8x32xf32>) -> tensor<8x32xf32>
  // CHECK: math.tanh
  %t = math.tanh %h : tensor<8x32xf32>
  %e2 = tensor.empty() : tensor<8x16xf32>
  %i2 = linalg.fill ins(%zero : f32) outs(%e2 : tensor<8x16xf32>) -> tensor<8x16xf32>
  // CHECK{LITERAL}: linalg.matmul {mesh.shardings = [#mesh.shard<@g, [[0], []]>]} ins(
  %y = linalg.matmul ins(%t, %w2 : tensor<8x32xf32>, tensor<32x16xf32>)
                     outs(%i2 : tensor<8x16xf32>) -> tensor<8x16xf32>
  return %y : tensor<8x16xf32>
}
