// RUN: shard-opt %s --split-input-file --verify-diagnostics

func.func @no_group(%x: tensor<4xf32>) {
  // expected-error@+1 {{'mesh.sharding_group' op attribute "group_id" is expected but not provided}}
  "mesh.sharding_group"(%x) {} : (tensor<4xf32>) -> ()
  return
}

// -----

func.func @a_group_by_name(%x: tensor<4xf32>) {
  // expected-error@+1 {{'mesh.sharding_group' op expected an integer, found "a"}}
  "mesh.sharding_group"(%x) {group_id = "a"} : (tensor<4xf32>) -> ()
  return
}

// -----

func.func @a_group_of_many_bits(%x: tensor<4xf32>) {
  // expected-error@+1 {{'mesh.sharding_group' op 1 : i65 is wider than 64 bits}}
  "mesh.sharding_group"(%x) {group_id = 1 : i65} : (tensor<4xf32>) -> ()
  return
}

// -----

func.func @not_a_tensor(%x: f32) {
  // expected-error@+1 {{'mesh.sharding_group' op is on a f32}}
  "mesh.sharding_group"(%x) {group_id = 1 : i64} : (f32) -> ()
  return
}

// -----

func.func @unranked(%x: tensor<*xf32>) {
  // expected-error@+1 {{'mesh.sharding_group' op is on a tensor<*xf32>}}
  "mesh.sharding_group"(%x) {group_id = 1 : i64} : (tensor<*xf32>) -> ()
  return
}

// -----

func.func @a_result(%x: tensor<4xf32>) {
  // expected-error@+1 {{expects exactly 0 results, but got 1}}
  %0 = "mesh.sharding_group"(%x) {group_id = 1 : i64} : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @nothing_in_it() {
  // expected-error@+1 {{expects exactly 1 operands, but got 0}}
  "mesh.sharding_group"() {group_id = 1 : i64} : () -> ()
  return
}

// -----

func.func @two_tensors(%x: tensor<4xf32>) {
  // expected-error@+1 {{expects exactly 1 operands, but got 2}}
  "mesh.sharding_group"(%x, %x) {group_id = 1 : i64} : (tensor<4xf32>, tensor<4xf32>) -> ()
  return
}
