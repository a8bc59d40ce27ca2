// Between passes a file of several meshes stays in Shardy's words: parts, stages and transfers are attributes.
//
// RUN: shard-opt %s --propagate | filecheck %s
// RUN: shard-opt %s --propagate | shard-opt - --spmd > %t.two_steps
// RUN: shard-opt %s --spmd | diff - %t.two_steps
// RUN: shard-opt %s --spmd --stop-after=stages-to-grid | shard-opt - --spmd | diff - %t.two_steps

// CHECK: sdy.mesh @first_2 = <["x"=1, "y"=2]> {offsets = [0, 0], part_of = @m}
sdy.mesh @m = <["x"=2, "y"=4]>
sdy.mesh @small = <["s"=2]>
// CHECK: tensor<8xf32> {sdy.sharding = {{.*}}, shard_dialect.stage = @first_2}
func.func @main(%x: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@m, [{"x"}, {"y"}]>},
                %z: tensor<8xf32> {sdy.sharding = #sdy.sharding<@small, [{"s"}]>}) -> (tensor<8x8xf32>, tensor<8xf32>) {
  %0 = stablehlo.tanh %x : tensor<8x8xf32>
  // CHECK: sdy.reshard %0 {{.*}}shard_dialect.stages = [@m, @first_2]
  %1 = sdy.sharding_constraint %0 <@small, [{"s"}, {}]> : tensor<8x8xf32>
  %2 = stablehlo.tanh %1 : tensor<8x8xf32>
  %3 = stablehlo.tanh %z : tensor<8xf32>
  return %2, %3 : tensor<8x8xf32>, tensor<8xf32>
}
