// RUN: shard-opt %s --spmd | filecheck %s

// A reshard that moves up meets an op whose other results have more dimensions.

shard.grid @g(shape = 2x3)
func.func @main(%x: tensor<4x4x8xf32>, %scale: tensor<4xf32>, %y: tensor<8xf32> {mesh.sharding = #mesh.shard<@g, [[0]]>},
    %into: tensor<12x8x4xf32> {mesh.sharding = #mesh.shard<@g, [[], [], [0]]>}) -> tensor<12x8x4xf32> {
  %n:3 = "stablehlo.batch_norm_training"(%x, %scale, %scale) {epsilon = 1.0 : f32, feature_index = 0 : i64}
    : (tensor<4x4x8xf32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<4x4x8xf32>, tensor<4xf32>, tensor<4xf32>)
  %sum = linalg.generic {indexing_maps = [affine_map<(i, j, k) -> (i)>, affine_map<(i, j, k) -> (j)>, affine_map<(i, j, k) -> (k, i, j)>],
      iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%y, %n#2 : tensor<8xf32>, tensor<4xf32>) outs(%into : tensor<12x8x4xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32):
    %s = arith.addf %a, %b : f32
    %t = arith.addf %s, %c : f32
    linalg.yield %t : f32
  } -> tensor<12x8x4xf32>
  %rows = shard.sharding @g split_axes = [[0], [], []] : !shard.sharding
  %r = shard.shard %sum to %rows annotate_for_users : tensor<12x8x4xf32>
  return %r : tensor<12x8x4xf32>
}
// CHECK-LABEL: @main
// CHECK: "stablehlo.batch_norm_training"
// CHECK: shard.all_to_all
