"sdy.mesh"() <{mesh = #sdy.mesh<["x"=2, "y"=2]>, sym_name = "m"}> : () -> ()
func.func @main(%x: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@m, [{"x"}, {}]>},
    %w: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@m, [{"x"}, {}]>})
    -> (tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>) {
  %0 = "sdy.all_gather"(%x) <{gathering_axes = #sdy<list_of_axis_ref_lists[{"x"}, {}]>,
      out_sharding = #sdy.sharding<@m, [{}, {}]>}> : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %1 = "sdy.all_slice"(%0) <{slicing_axes = #sdy<list_of_axis_ref_lists[{"y"}, {}]>,
      out_sharding = #sdy.sharding<@m, [{"y"}, {}]>}> : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %2 = "sdy.collective_permute"(%1) <{out_sharding = #sdy.sharding<@m, [{"x"}, {}]>}>
      : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %3 = "sdy.all_to_all"(%2) <{params = #sdy<all_to_all_param_list[{"x"}: 0->1]>,
      out_sharding = #sdy.sharding<@m, [{}, {"x"}]>}> : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %4 = stablehlo.dot_general %3, %w, contracting_dims = [1] x [0]
      : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %5 = "sdy.all_reduce"(%4) <{reduction_axes = #sdy<axis_ref_list{"x"}>,
      out_sharding = #sdy.sharding<@m, [{}, {}]>}> : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %6 = stablehlo.dot_general %3, %w, contracting_dims = [1] x [0]
      : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %7 = stablehlo.add %6, %6 : tensor<8x8xf32>
  %8 = "sdy.reduce_scatter"(%7) <{reduce_scatter_axes = #sdy<list_of_axis_ref_lists[{"x"}, {}]>,
      out_sharding = #sdy.sharding<@m, [{"x"}, {}]>}> : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %9 = "sdy.replicated_to_unreduced"(%0) <{axes = #sdy<axis_ref_list{"y"}>,
      out_sharding = #sdy.sharding<@m, [{}, {}], unreduced={"y"}>}> : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %10 = stablehlo.add %9, %9 : tensor<8x8xf32>
  %11 = "sdy.sharded_to_unreduced"(%8) <{axes = #sdy<list_of_axis_ref_lists[{"x"}, {}]>,
      out_sharding = #sdy.sharding<@m, [{}, {}], unreduced={"x"}>}> : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %12 = stablehlo.tanh %11 : tensor<8x8xf32>
  %13 = "sdy.constant"() <{value = dense<1.0> : tensor<8x8xf32>}> : () -> tensor<8x8xf32>
  %14 = stablehlo.add %13, %10 : tensor<8x8xf32>
  %15 = "sdy.data_flow_edge"(%14) <{sharding = #sdy.sharding<@m, [{"x"}, {}]>}>
      : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %16 = "sdy.func_data_flow_edge"(%12) <{sharding = #sdy.sharding<@m, [{"y"}, {}]>}>
      : (tensor<8x8xf32>) -> tensor<8x8xf32>
  return %5, %8, %10, %15, %16
      : tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>
}
