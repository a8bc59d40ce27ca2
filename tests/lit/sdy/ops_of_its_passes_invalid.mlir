// RUN: shard-opt %s --split-input-file --verify-diagnostics

"sdy.mesh"() <{mesh = #sdy.mesh<["x"=8, "y"=2]>, sym_name = "m"}> : () -> ()
func.func @all_gather(%x: tensor<8x8xf32>) {
  // expected-error@+1 {{'sdy.all_gather' op is not read: it is made by Shardy's own passes}}
  %0 = "sdy.all_gather"(%x) : (tensor<8x8xf32>) -> tensor<8x8xf32>
  return
}

// -----

"sdy.mesh"() <{mesh = #sdy.mesh<["x"=8, "y"=2]>, sym_name = "m"}> : () -> ()
func.func @all_slice(%x: tensor<8x8xf32>) {
  // expected-error@+1 {{'sdy.all_slice' op is not read: it is made by Shardy's own passes}}
  %0 = "sdy.all_slice"(%x) : (tensor<8x8xf32>) -> tensor<8x8xf32>
  return
}

// -----

"sdy.mesh"() <{mesh = #sdy.mesh<["x"=8, "y"=2]>, sym_name = "m"}> : () -> ()
func.func @all_to_all(%x: tensor<8x8xf32>) {
  // expected-error@+1 {{'sdy.all_to_all' op is not read: it is made by Shardy's own passes}}
  %0 = "sdy.all_to_all"(%x) : (tensor<8x8xf32>) -> tensor<8x8xf32>
  return
}

// -----

"sdy.mesh"() <{mesh = #sdy.mesh<["x"=8, "y"=2]>, sym_name = "m"}> : () -> ()
func.func @all_reduce(%x: tensor<8x8xf32>) {
  // expected-error@+1 {{'sdy.all_reduce' op is not read: it is made by Shardy's own passes}}
  %0 = "sdy.all_reduce"(%x) : (tensor<8x8xf32>) -> tensor<8x8xf32>
  return
}

// -----

"sdy.mesh"() <{mesh = #sdy.mesh<["x"=8, "y"=2]>, sym_name = "m"}> : () -> ()
func.func @collective_permute(%x: tensor<8x8xf32>) {
  // expected-error@+1 {{'sdy.collective_permute' op is not read: it is made by Shardy's own passes}}
  %0 = "sdy.collective_permute"(%x) : (tensor<8x8xf32>) -> tensor<8x8xf32>
  return
}

// -----

"sdy.mesh"() <{mesh = #sdy.mesh<["x"=8, "y"=2]>, sym_name = "m"}> : () -> ()
func.func @reduce_scatter(%x: tensor<8x8xf32>) {
  // expected-error@+1 {{'sdy.reduce_scatter' op is not read: it is made by Shardy's own passes}}
  %0 = "sdy.reduce_scatter"(%x) : (tensor<8x8xf32>) -> tensor<8x8xf32>
  return
}

// -----

"sdy.mesh"() <{mesh = #sdy.mesh<["x"=8, "y"=2]>, sym_name = "m"}> : () -> ()
func.func @sharded_to_unreduced(%x: tensor<8x8xf32>) {
  // expected-error@+1 {{'sdy.sharded_to_unreduced' op is not read: it is made by Shardy's own passes}}
  %0 = "sdy.sharded_to_unreduced"(%x) : (tensor<8x8xf32>) -> tensor<8x8xf32>
  return
}

// -----

"sdy.mesh"() <{mesh = #sdy.mesh<["x"=8, "y"=2]>, sym_name = "m"}> : () -> ()
func.func @replicated_to_unreduced(%x: tensor<8x8xf32>) {
  // expected-error@+1 {{'sdy.replicated_to_unreduced' op is not read: it is made by Shardy's own passes}}
  %0 = "sdy.replicated_to_unreduced"(%x) : (tensor<8x8xf32>) -> tensor<8x8xf32>
  return
}

// -----

"sdy.mesh"() <{mesh = #sdy.mesh<["x"=8, "y"=2]>, sym_name = "m"}> : () -> ()
func.func @constant(%x: tensor<8x8xf32>) {
  // expected-error@+1 {{'sdy.constant' op is not read: it is made by Shardy's own passes}}
  %0 = "sdy.constant"() <{value = dense<1.0> : tensor<8x8xf32>}> : () -> tensor<8x8xf32>
  return
}

// -----

"sdy.mesh"() <{mesh = #sdy.mesh<["x"=8, "y"=2]>, sym_name = "m"}> : () -> ()
func.func @data_flow_edge(%x: tensor<8x8xf32>) {
  // expected-error@+1 {{'sdy.data_flow_edge' op is not read: it is made by Shardy's own passes}}
  %0 = "sdy.data_flow_edge"(%x) : (tensor<8x8xf32>) -> tensor<8x8xf32>
  return
}

// -----

"sdy.mesh"() <{mesh = #sdy.mesh<["x"=8, "y"=2]>, sym_name = "m"}> : () -> ()
func.func @func_data_flow_edge(%x: tensor<8x8xf32>) {
  // expected-error@+1 {{'sdy.func_data_flow_edge' op is not read: it is made by Shardy's own passes}}
  %0 = "sdy.func_data_flow_edge"(%x) : (tensor<8x8xf32>) -> tensor<8x8xf32>
  return
}

// -----

"sdy.mesh"() <{mesh = #sdy.mesh<["x"=8, "y"=2]>, sym_name = "m"}> : () -> ()
func.func @what_no_version_has(%x: tensor<8x8xf32>) {
  // expected-error@+1 {{'sdy.teleport' op is not read: it is made by Shardy's own passes}}
  %0 = "sdy.teleport"(%x) : (tensor<8x8xf32>) -> tensor<8x8xf32>
  return
}
