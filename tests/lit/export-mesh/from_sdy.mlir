// Shardy's annotations in the RFC's words, partial sums too, where its mesh has the names of none.
//
// RUN: shard-opt %s --export-mesh | filecheck %s
// RUN: shard-opt %s --export-mesh --export-sdy --export-mesh | filecheck %s

// CHECK-NOT: sdy.
// CHECK: mesh.cluster @m(rank = 2, dim_sizes = [2, 4])
"sdy.mesh"() <{mesh = #sdy.mesh<["axis_0"=2, "axis_1"=4]>, sym_name = "m"}> : () -> ()

// CHECK-LABEL: func.func @main
// CHECK-SAME{LITERAL}: (%arg0: tensor<4x8xf32> {mesh.sharding = #mesh.shard<@m, [[0], []]>})
func.func @main(%x: tensor<4x8xf32> {sdy.sharding = #sdy.sharding<@m, [{"axis_0"}, {}]>}) -> tensor<4x8xf32> {
  // CHECK-NEXT{LITERAL}: math.tanh %arg0 {mesh.shardings = [#mesh.shard<@m, [[], [], [0]]>]}
  %0 = math.tanh %x {sdy.sharding = #sdy.sharding_per_value<[<@m, [{}, {}], unreduced={"axis_0"}>]>} : tensor<4x8xf32>
  // CHECK-NEXT{LITERAL}: mesh.annotate %0 {as_result = false, required = true, sharding = #mesh.shard<@m, [[], [1]]>}
  %1 = "sdy.sharding_constraint"(%0) <{sharding = #sdy.sharding<@m, [{}, {"axis_1"}]>}> : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return %1 : tensor<4x8xf32>
}
