// What is in Shardy's words already stays so, and what has no annotations as it is.
//
// RUN: shard-opt %s > %t.before
// RUN: shard-opt %s --export-sdy | diff - %t.before
// RUN: shard-opt %s --export-sdy | filecheck %s

// CHECK: sdy.mesh
"sdy.mesh"() <{mesh = #sdy.mesh<["x"=2]>, sym_name = "m"}> : () -> ()
func.func @plain(%x: tensor<4xf32>) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}
func.func @shardys(%x: tensor<4xf32> {sdy.sharding = #sdy.sharding<@m, [{"x", ?}]>}) -> tensor<4xf32> {
  %0 = "sdy.sharding_constraint"(%x) {sharding = #sdy.sharding<@m, [{"x"}]>} : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
