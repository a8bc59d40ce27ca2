// The ops that Shardy's export writes: collectives with the sharding of their result, constants, edges.
//
// RUN: shard-opt %s --import | filecheck %s
// RUN: shard-opt %s --spmd | filecheck %s --check-prefix=LOCAL
// RUN: shard-run %s --check | filecheck %s --check-prefix=RAN

// CHECK{LITERAL}: mesh.reshard %arg0 {sharding = #mesh.shard<@m, [[], []]>}
// CHECK{LITERAL}: {sharding = #mesh.shard<@m, [[], [0]]>}
// CHECK{LITERAL}: {as_result = false, required = true, sharding = #mesh.shard<@m, [[], [], [0]]>}
// CHECK-NEXT{LITERAL}: {sharding = #mesh.shard<@m, [[], []]>}
// CHECK{LITERAL}: {as_result = false, required = true, sharding = #mesh.shard<@m, [[], [], [0], {open = [0, 1]}]>}
// CHECK-NEXT{LITERAL}: {sharding = #mesh.shard<@m, [[0], []]>}

// LOCAL-COUNT-2: shard.all_gather
// LOCAL-NOT: shard.all_reduce

// RAN: check passed

"sdy.mesh"() <{mesh = #sdy.mesh<["x"=2, "y"=2]>, sym_name = "m"}> : () -> ()
func.func @main(%x: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@m, [{"x"}, {}]>}, %w: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@m, [{}, {"x"}]>}) -> (tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>) {
  %whole = "sdy.all_gather"(%x) <{gathering_axes = #sdy<list_of_axis_ref_lists[{"x"}, {}]>, out_sharding = #sdy.sharding<@m, [{}, {}]>}> : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %columns = "sdy.all_slice"(%whole) <{slicing_axes = #sdy<list_of_axis_ref_lists[{}, {"x"}]>, out_sharding = #sdy.sharding<@m, [{}, {"x"}]>}> : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %rows = stablehlo.transpose %w, dims = [1, 0] : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %p = stablehlo.dot_general %columns, %rows, contracting_dims = [1] x [0] {sdy.sharding = #sdy.sharding_per_value<[#sdy.sharding<@m, [{}, {}], unreduced={"x"}>]>} : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %sum = "sdy.all_reduce"(%p) <{out_sharding = #sdy.sharding<@m, [{}, {}]>, reduction_axes = #sdy<axis_ref_list{"x"}>}> : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %q = stablehlo.dot_general %columns, %rows, contracting_dims = [1] x [0] : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %twice = stablehlo.add %q, %q : tensor<8x8xf32>
  %some = "sdy.reduce_scatter"(%twice) <{out_sharding = #sdy.sharding<@m, [{"x"}, {}]>, reduce_scatter_axes = #sdy<list_of_axis_ref_lists[{"x"}, {}]>}> : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %one = "sdy.constant"() <{value = dense<1.0> : tensor<8x8xf32>}> : () -> tensor<8x8xf32>
  %edge = "sdy.data_flow_edge"(%one) <{sharding = #sdy.sharding<@m, [{"x"}, {}]>}> : (tensor<8x8xf32>) -> tensor<8x8xf32>
  return %sum, %some, %edge : tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>
}
