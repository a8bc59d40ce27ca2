// RUN: shard-opt %s --split-input-file --verify-diagnostics

"sdy.mesh"() <{mesh = #sdy.mesh<["x"=8, "y"=2]>, sym_name = "m"}> : () -> ()
func.func @no_direction(%x: tensor<8x8xf32>) {
  // expected-error@+1 {{'sdy.propagation_barrier' op attribute 'allowed_direction' must be a number, found None}}
  %0 = "sdy.propagation_barrier"(%x) <{}> : (tensor<8x8xf32>) -> tensor<8x8xf32>
  return
}

// -----

"sdy.mesh"() <{mesh = #sdy.mesh<["x"=8, "y"=2]>, sym_name = "m"}> : () -> ()
func.func @both_directions(%x: tensor<8x8xf32>) {
  // expected-error@+1 {{'sdy.propagation_barrier' op allows both directions, and so bars nothing: leave it out}}
  %0 = "sdy.propagation_barrier"(%x) <{allowed_direction = 3 : i32}> : (tensor<8x8xf32>) -> tensor<8x8xf32>
  return
}

// -----

"sdy.mesh"() <{mesh = #sdy.mesh<["x"=8, "y"=2]>, sym_name = "m"}> : () -> ()
func.func @an_unknown_direction(%x: tensor<8x8xf32>) {
  // expected-error@+1 {{'sdy.propagation_barrier' op allows direction 4: expected 0 to 2}}
  %0 = "sdy.propagation_barrier"(%x) <{allowed_direction = 4 : i32}> : (tensor<8x8xf32>) -> tensor<8x8xf32>
  return
}

// -----

"sdy.mesh"() <{mesh = #sdy.mesh<["x"=8, "y"=2]>, sym_name = "m"}> : () -> ()
func.func @a_negative_direction(%x: tensor<8x8xf32>) {
  // expected-error@+1 {{'sdy.propagation_barrier' op allows direction -1: expected 0 to 2}}
  %0 = "sdy.propagation_barrier"(%x) <{allowed_direction = -1 : i32}> : (tensor<8x8xf32>) -> tensor<8x8xf32>
  return
}

// -----

"sdy.mesh"() <{mesh = #sdy.mesh<["x"=8, "y"=2]>, sym_name = "m"}> : () -> ()
func.func @a_word(%x: tensor<8x8xf32>) {
  // expected-error@+1 {{'sdy.propagation_barrier' op attribute 'allowed_direction' must be a number, found "none"}}
  %0 = "sdy.propagation_barrier"(%x) <{allowed_direction = "none"}> : (tensor<8x8xf32>) -> tensor<8x8xf32>
  return
}

// -----

"sdy.mesh"() <{mesh = #sdy.mesh<["x"=8, "y"=2]>, sym_name = "m"}> : () -> ()
func.func @another_type(%x: tensor<8x8xf32>) {
  // expected-error@+1 {{'sdy.propagation_barrier' op takes one value and gives it}}
  %0 = "sdy.propagation_barrier"(%x) <{allowed_direction = 1 : i32}> : (tensor<8x8xf32>) -> tensor<8xf32>
  return
}

// -----

"sdy.mesh"() <{mesh = #sdy.mesh<["x"=8, "y"=2]>, sym_name = "m"}> : () -> ()
func.func @a_scalar(%x: f32) {
  // expected-error@+1 {{'sdy.propagation_barrier' op is on a f32: expected a ranked tensor}}
  %0 = "sdy.propagation_barrier"(%x) <{allowed_direction = 1 : i32}> : (f32) -> f32
  return
}
