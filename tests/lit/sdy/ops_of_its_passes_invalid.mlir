// RUN: shard-opt %s --import --split-input-file --verify-diagnostics

"sdy.mesh"() <{mesh = #sdy.mesh<["x"=8, "y"=2]>, sym_name = "m"}> : () -> ()
func.func @no_sharding(%x: tensor<8x8xf32>) {
  // expected-error@+1 {{'sdy.all_gather' op has no attribute 'out_sharding'}}
  %0 = "sdy.all_gather"(%x) : (tensor<8x8xf32>) -> tensor<8x8xf32>
  return
}

// -----

"sdy.mesh"() <{mesh = #sdy.mesh<["x"=8, "y"=2]>, sym_name = "m"}> : () -> ()
func.func @no_axes(%x: tensor<8x8xf32>) {
  // expected-error@+1 {{'sdy.all_reduce' op has no attribute 'reduction_axes'}}
  %0 = "sdy.all_reduce"(%x) <{out_sharding = #sdy.sharding<@m, [{}, {}]>}> : (tensor<8x8xf32>) -> tensor<8x8xf32>
  return
}

// -----

"sdy.mesh"() <{mesh = #sdy.mesh<["x"=8, "y"=2]>, sym_name = "m"}> : () -> ()
func.func @unknown_axis(%x: tensor<8x8xf32>) {
  // expected-error@+1 {{'sdy.all_reduce' op axis "z" in sdy.all_reduce is not in mesh @m; its axes: "x", "y"}}
  %0 = "sdy.all_reduce"(%x) <{out_sharding = #sdy.sharding<@m, [{}, {}]>, reduction_axes = #sdy<axis_ref_list{"z"}>}> : (tensor<8x8xf32>) -> tensor<8x8xf32>
  return
}

// -----

"sdy.mesh"() <{mesh = #sdy.mesh<["x"=8, "y"=2]>, sym_name = "m"}> : () -> ()
func.func @not_axes(%x: tensor<8x8xf32>) {
  // expected-error@+1 {{'sdy.reduce_scatter' op expected #sdy<list_of_axis_ref_lists...>, found 3 : i64}}
  %0 = "sdy.reduce_scatter"(%x) <{out_sharding = #sdy.sharding<@m, [{"x"}, {}]>, reduce_scatter_axes = 3}> : (tensor<8x8xf32>) -> tensor<8x8xf32>
  return
}

// -----

"sdy.mesh"() <{mesh = #sdy.mesh<["x"=8, "y"=2]>, sym_name = "m"}> : () -> ()
func.func @another_type(%x: tensor<8x8xf32>) {
  // expected-error@+1 {{'sdy.all_slice' op takes one value and gives it: expected one operand and result alike}}
  %0 = "sdy.all_slice"(%x) <{out_sharding = #sdy.sharding<@m, [{"x"}, {}]>}> : (tensor<8x8xf32>) -> tensor<1x8xf32>
  return
}

// -----

"sdy.mesh"() <{mesh = #sdy.mesh<["x"=8, "y"=2]>, sym_name = "m"}> : () -> ()
func.func @constant(%x: tensor<8x8xf32>) {
  // expected-error@+1 {{'sdy.constant' op has no attribute 'value'}}
  %0 = "sdy.constant"() : () -> tensor<8x8xf32>
  return
}

// -----

"sdy.mesh"() <{mesh = #sdy.mesh<["x"=8, "y"=2]>, sym_name = "m"}> : () -> ()
func.func @edge(%x: tensor<8x8xf32>) {
  // expected-error@+1 {{'sdy.data_flow_edge' op sharding <@m, [{"x"}]> has 1 dimensions, but the tensor has 2}}
  %0 = "sdy.data_flow_edge"(%x) <{sharding = #sdy.sharding<@m, [{"x"}]>}> : (tensor<8x8xf32>) -> tensor<8x8xf32>
  return
}

// -----

"sdy.mesh"() <{mesh = #sdy.mesh<["x"=8, "y"=2]>, sym_name = "m"}> : () -> ()
func.func @unknown(%x: tensor<8x8xf32>) {
  // expected-error@+1 {{'sdy.all_gather_all' op is not known: expected an op of Shardy of jaxlib 0.10}}
  %0 = "sdy.all_gather_all"(%x) : (tensor<8x8xf32>) -> tensor<8x8xf32>
  return
}

// -----

"sdy.mesh"() <{mesh = #sdy.mesh<["x"=8, "y"=2]>, sym_name = "m"}> : () -> ()
func.func @argument(%x: tensor<8x8xf32>) {
  // expected-error@+1 {{'sdy.all_reduce' op is on an argument: only a value that an op makes can be partial}}
  %0 = "sdy.all_reduce"(%x) <{out_sharding = #sdy.sharding<@m, [{}, {}]>, reduction_axes = #sdy<axis_ref_list{"x"}>}> : (tensor<8x8xf32>) -> tensor<8x8xf32>
  return
}
