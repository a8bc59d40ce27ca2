// Along a replicated axis nothing is split, however open the dimension is.
//
// RUN: shard-opt %s --propagate --import  | filecheck %s

"sdy.mesh"() <{mesh = #sdy.mesh<["x"=2, "y"=2]>, sym_name = "m"}> : () -> ()

// CHECK{LITERAL}: func.func @main(%arg0: tensor<4x8xf32> {mesh.sharding = #mesh.shard<@m, [[0], []]>}) -> (tensor<4x8xf32> {mesh.sharding = #mesh.shard<@m, [[0], [1]]>})
func.func @main(%x: tensor<4x8xf32> {sdy.sharding = #sdy.sharding<@m, [{?}, {?}], replicated={"y"}>}) -> tensor<4x8xf32> {
  %0 = math.tanh %x : tensor<4x8xf32>
  %1 = "sdy.sharding_constraint"(%0) <{sharding = #sdy.sharding<@m, [{"x"}, {"y"}]>}> : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return %1 : tensor<4x8xf32>
}
