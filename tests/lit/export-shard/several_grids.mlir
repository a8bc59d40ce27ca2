// Between passes a file of several grids stays in upstream's words: parts, stages and transfers are attributes.
//
// RUN: shard-opt %s --propagate | filecheck %s
// RUN: shard-opt %s --propagate | shard-opt - --spmd > %t.two_steps
// RUN: shard-opt %s --spmd | diff - %t.two_steps
// RUN: shard-opt %s --spmd --stop-after=stages-to-grid | shard-opt - --spmd | diff - %t.two_steps

// CHECK: shard.grid @first_2(shape = 1x2) {offsets = [0, 0], part_of = @m}
shard.grid @m(shape = 2x4)
shard.grid @small(shape = 2)
// CHECK: -> (tensor<8x8xf32> {shard_dialect.stage = @first_2})
func.func @main(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %a = shard.sharding @m split_axes = [[0], [1]] : !shard.sharding
  %b = shard.sharding @small split_axes = [[0]] : !shard.sharding
  %xs = shard.shard %x to %a : tensor<8x8xf32>
  %0 = math.tanh %xs : tensor<8x8xf32>
  // CHECK: annotate_for_users {shard_dialect.stages = [@m, @first_2], stands_for = "transfer"}
  %1 = shard.shard %0 to %b annotate_for_users : tensor<8x8xf32>
  %2 = math.tanh %1 : tensor<8x8xf32>
  return %2 : tensor<8x8xf32>
}
