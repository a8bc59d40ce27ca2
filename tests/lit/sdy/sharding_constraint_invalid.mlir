// RUN: shard-opt %s --split-input-file --verify-diagnostics

"sdy.mesh"() <{mesh = #sdy.mesh<["x"=8, "y"=2]>, sym_name = "m"}> : () -> ()
func.func @no_sharding(%x: tensor<8x8xf32>) {
  // expected-error@+1 {{'sdy.sharding_constraint' op has no attribute 'sharding'}}
  %0 = "sdy.sharding_constraint"(%x) <{}> : (tensor<8x8xf32>) -> tensor<8x8xf32>
  return
}

// -----

"sdy.mesh"() <{mesh = #sdy.mesh<["x"=8, "y"=2]>, sym_name = "m"}> : () -> ()
func.func @a_string(%x: tensor<8x8xf32>) {
  // expected-error@+1 {{'sdy.sharding_constraint' op expected #sdy.sharding<...>, found "rows"}}
  %0 = "sdy.sharding_constraint"(%x) <{sharding = "rows"}> : (tensor<8x8xf32>) -> tensor<8x8xf32>
  return
}

// -----

"sdy.mesh"() <{mesh = #sdy.mesh<["x"=8, "y"=2]>, sym_name = "m"}> : () -> ()
func.func @too_few_dimensions(%x: tensor<8x8xf32>) {
  // expected-error@+1 {{'sdy.sharding_constraint' op sharding <@m, [{"x"}]> has 1 dimensions, but the tensor has 2}}
  %0 = "sdy.sharding_constraint"(%x) <{sharding = #sdy.sharding<@m, [{"x"}]>}> : (tensor<8x8xf32>) -> tensor<8x8xf32>
  return
}

// -----

"sdy.mesh"() <{mesh = #sdy.mesh<["x"=8, "y"=2]>, sym_name = "m"}> : () -> ()
func.func @unknown_axis(%x: tensor<8x8xf32>) {
  // expected-error@+1 {{'sdy.sharding_constraint' op axis "z" in <@m, [{"z"}, {}]> is not in mesh @m; its axes: "x", "y"}}
  %0 = "sdy.sharding_constraint"(%x) <{sharding = #sdy.sharding<@m, [{"z"}, {}]>}> : (tensor<8x8xf32>) -> tensor<8x8xf32>
  return
}

// -----

"sdy.mesh"() <{mesh = #sdy.mesh<["x"=8, "y"=2]>, sym_name = "m"}> : () -> ()
func.func @unknown_mesh(%x: tensor<8x8xf32>) {
  // expected-error@+1 {{'sdy.sharding_constraint' op mesh @n is not declared; the module's: @m}}
  %0 = "sdy.sharding_constraint"(%x) <{sharding = #sdy.sharding<@n, [{}, {}]>}> : (tensor<8x8xf32>) -> tensor<8x8xf32>
  return
}

// -----

"sdy.mesh"() <{mesh = #sdy.mesh<["x"=8, "y"=2]>, sym_name = "m"}> : () -> ()
func.func @another_type(%x: tensor<8x8xf32>) {
  // expected-error@+1 {{'sdy.sharding_constraint' op takes one value and gives it}}
  %0 = "sdy.sharding_constraint"(%x) <{sharding = #sdy.sharding<@m, [{"x"}, {}]>}> : (tensor<8x8xf32>) -> tensor<8x4xf32>
  return
}

// -----

"sdy.mesh"() <{mesh = #sdy.mesh<["x"=8, "y"=2]>, sym_name = "m"}> : () -> ()
func.func @a_scalar_with_a_dimension(%x: f32) {
  // expected-error@+1 {{'sdy.sharding_constraint' op sharding <@m, [{"x"}]> has 1 dimensions, but the tensor has 0}}
  %0 = "sdy.sharding_constraint"(%x) <{sharding = #sdy.sharding<@m, [{"x"}]>}> : (f32) -> f32
  return
}

// -----

"sdy.mesh"() <{mesh = #sdy.mesh<["x"=8, "y"=2]>, sym_name = "m"}> : () -> ()
func.func @unranked(%x: tensor<*xf32>) {
  // expected-error@+1 {{'sdy.sharding_constraint' op has a sharding for a tensor<*xf32>, which has no rank}}
  %0 = "sdy.sharding_constraint"(%x) <{sharding = #sdy.sharding<@m, []>}> : (tensor<*xf32>) -> tensor<*xf32>
  return
}

// -----

"sdy.mesh"() <{mesh = #sdy.mesh<["x"=8, "y"=2]>, sym_name = "m"}> : () -> ()
func.func @per_value(%x: tensor<8x8xf32>) {
  // expected-error@+1 {{'sdy.sharding_constraint' op expected #sdy.sharding<...>, found #sdy.sharding_per_value<[<@m, [{}, {}]>]>}}
  %0 = "sdy.sharding_constraint"(%x) <{sharding = #sdy.sharding_per_value<[<@m, [{}, {}]>]>}> : (tensor<8x8xf32>) -> tensor<8x8xf32>
  return
}

// -----

"sdy.mesh"() <{mesh = #sdy.mesh<["x"=8, "y"=2]>, sym_name = "m"}> : () -> ()
func.func @no_operand(%x: tensor<8x8xf32>) {
  // expected-error@+1 {{'sdy.sharding_constraint' op takes one value and gives it}}
  %0 = "sdy.sharding_constraint"() <{sharding = #sdy.sharding<@m, [{}, {}]>}> : () -> tensor<8x8xf32>
  return
}

// -----

"sdy.mesh"() <{mesh = #sdy.mesh<["x"=8, "y"=2]>, sym_name = "m"}> : () -> ()
func.func @no_result(%x: tensor<8x8xf32>) {
  // expected-error@+1 {{'sdy.sharding_constraint' op takes one value and gives it}}
  "sdy.sharding_constraint"(%x) <{sharding = #sdy.sharding<@m, [{}, {}]>}> : (tensor<8x8xf32>) -> ()
  return
}
