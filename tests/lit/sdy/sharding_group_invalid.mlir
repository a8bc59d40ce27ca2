// RUN: shard-opt %s --split-input-file --verify-diagnostics

"sdy.mesh"() <{mesh = #sdy.mesh<["x"=8, "y"=2]>, sym_name = "m"}> : () -> ()
func.func @no_group(%x: tensor<8x8xf32>) {
  // expected-error@+1 {{'sdy.sharding_group' op attribute 'group_id' must be a number, found None}}
  "sdy.sharding_group"(%x) : (tensor<8x8xf32>) -> ()
  return
}

// -----

"sdy.mesh"() <{mesh = #sdy.mesh<["x"=8, "y"=2]>, sym_name = "m"}> : () -> ()
func.func @a_name(%x: tensor<8x8xf32>) {
  // expected-error@+1 {{'sdy.sharding_group' op attribute 'group_id' must be a number, found "a"}}
  "sdy.sharding_group"(%x) <{group_id = "a"}> : (tensor<8x8xf32>) -> ()
  return
}

// -----

"sdy.mesh"() <{mesh = #sdy.mesh<["x"=8, "y"=2]>, sym_name = "m"}> : () -> ()
func.func @no_tensor(%x: tensor<8x8xf32>) {
  // expected-error@+1 {{'sdy.sharding_group' op takes one tensor and gives none}}
  "sdy.sharding_group"() <{group_id = 1 : i64}> : () -> ()
  return
}

// -----

"sdy.mesh"() <{mesh = #sdy.mesh<["x"=8, "y"=2]>, sym_name = "m"}> : () -> ()
func.func @two_tensors(%x: tensor<8x8xf32>) {
  // expected-error@+1 {{'sdy.sharding_group' op takes one tensor and gives none}}
  "sdy.sharding_group"(%x, %x) <{group_id = 1 : i64}> : (tensor<8x8xf32>, tensor<8x8xf32>) -> ()
  return
}

// -----

"sdy.mesh"() <{mesh = #sdy.mesh<["x"=8, "y"=2]>, sym_name = "m"}> : () -> ()
func.func @a_result(%x: tensor<8x8xf32>) {
  // expected-error@+1 {{'sdy.sharding_group' op takes one tensor and gives none}}
  %0 = "sdy.sharding_group"(%x) <{group_id = 1 : i64}> : (tensor<8x8xf32>) -> tensor<8x8xf32>
  return
}

// -----

"sdy.mesh"() <{mesh = #sdy.mesh<["x"=8, "y"=2]>, sym_name = "m"}> : () -> ()
func.func @a_scalar(%x: f32) {
  // expected-error@+1 {{'sdy.sharding_group' op is on a f32: expected a ranked tensor}}
  "sdy.sharding_group"(%x) <{group_id = 1 : i64}> : (f32) -> ()
  return
}

// -----

"sdy.mesh"() <{mesh = #sdy.mesh<["x"=8, "y"=2]>, sym_name = "m"}> : () -> ()
func.func @unranked(%x: tensor<*xf32>) {
  // expected-error@+1 {{'sdy.sharding_group' op is on a tensor<*xf32>: expected a ranked tensor}}
  "sdy.sharding_group"(%x) <{group_id = 1 : i64}> : (tensor<*xf32>) -> ()
  return
}
