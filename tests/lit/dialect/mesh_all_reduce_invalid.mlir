// RUN: shard-opt %s --split-input-file --verify-diagnostics

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 4]} : () -> ()
func.func @not_partial(%x: tensor<8x8xf32, #mesh.shard<@g, [[0], []]>>) {
  // expected-error@+1 {{'mesh.all_reduce' op sharding [[0], []] is not partial sum over axes [0]}}
  %0 = "mesh.all_reduce"(%x) {mesh_axis = [0], reduction = "sum"} : (tensor<8x8xf32, #mesh.shard<@g, [[0], []]>>) -> tensor<8x8xf32>
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 4]} : () -> ()
func.func @partial_over_another_axis(%x: tensor<8x8xf32, #mesh.shard<@g, [[], [], [0]]>>) {
  // expected-error@+1 {{'mesh.all_reduce' op sharding [[], [], [0]] is not partial sum over axes [1]}}
  %0 = "mesh.all_reduce"(%x) {mesh_axis = [1], reduction = "sum"} : (tensor<8x8xf32, #mesh.shard<@g, [[], [], [0]]>>) -> tensor<8x8xf32>
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 4]} : () -> ()
func.func @another_reduction(%x: tensor<8x8xf32, #mesh.shard<@g, [[], [], [0]]>>) {
  // expected-error@+1 {{'mesh.all_reduce' op sharding [[], [], [0]] is not partial max over axes [0]}}
  %0 = "mesh.all_reduce"(%x) {mesh_axis = [0], reduction = "max"} : (tensor<8x8xf32, #mesh.shard<@g, [[], [], [0]]>>) -> tensor<8x8xf32>
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 4]} : () -> ()
func.func @an_unknown_reduction(%x: tensor<8x8xf32, #mesh.shard<@g, [[], [], [0]]>>) {
  // expected-error@+1 {{'mesh.all_reduce' op reduction is 'median'}}
  %0 = "mesh.all_reduce"(%x) {mesh_axis = [0], reduction = "median"} : (tensor<8x8xf32, #mesh.shard<@g, [[], [], [0]]>>) -> tensor<8x8xf32>
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 4]} : () -> ()
func.func @the_result_is_still_partial(%x: tensor<8x8xf32, #mesh.shard<@g, [[], [], [0]]>>) {
  // expected-error@+1 {{'mesh.all_reduce' op gives [[], []] from [[], [], [0]], but its result type says [[], [], [0]]}}
  %0 = "mesh.all_reduce"(%x) {mesh_axis = [0], reduction = "sum"} : (tensor<8x8xf32, #mesh.shard<@g, [[], [], [0]]>>) -> tensor<8x8xf32, #mesh.shard<@g, [[], [], [0]]>>
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 4]} : () -> ()
func.func @the_result_is_split(%x: tensor<8x8xf32, #mesh.shard<@g, [[], [], [0]]>>) {
  // expected-error@+1 {{'mesh.all_reduce' op gives [[], []] from [[], [], [0]], but its result type says [[0], []]}}
  %0 = "mesh.all_reduce"(%x) {mesh_axis = [0], reduction = "sum"} : (tensor<8x8xf32, #mesh.shard<@g, [[], [], [0]]>>) -> tensor<8x8xf32, #mesh.shard<@g, [[0], []]>>
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 4]} : () -> ()
func.func @no_reduction(%x: tensor<8x8xf32, #mesh.shard<@g, [[], [], [0]]>>) {
  // expected-error@+1 {{'mesh.all_reduce' op attribute "reduction" is expected but not provided}}
  %0 = "mesh.all_reduce"(%x) {mesh_axis = [0]} : (tensor<8x8xf32, #mesh.shard<@g, [[], [], [0]]>>) -> tensor<8x8xf32>
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 4]} : () -> ()
func.func @a_reduction_that_is_no_name(%x: tensor<8x8xf32, #mesh.shard<@g, [[], [], [0]]>>) {
  // expected-error@+1 {{'mesh.all_reduce' op reduction is '0'}}
  %0 = "mesh.all_reduce"(%x) {mesh_axis = [0], reduction = 0 : i64} : (tensor<8x8xf32, #mesh.shard<@g, [[], [], [0]]>>) -> tensor<8x8xf32>
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 4]} : () -> ()
func.func @an_axis_that_is_none(%x: tensor<8x8xf32, #mesh.shard<@g, [[], [], [0]]>>) {
  // expected-error@+1 {{'mesh.all_reduce' op expected an axis as 0, or a part of one as "0:(1)2", found "x"}}
  %0 = "mesh.all_reduce"(%x) {mesh_axis = ["x"], reduction = "sum"} : (tensor<8x8xf32, #mesh.shard<@g, [[], [], [0]]>>) -> tensor<8x8xf32>
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 4]} : () -> ()
func.func @another_global_shape(%x: tensor<8x8xf32, #mesh.shard<@g, [[], [], [0]]>>) {
  // expected-error@+1 {{'mesh.all_reduce' op has different global tensors as its operand and its result}}
  %0 = "mesh.all_reduce"(%x) {mesh_axis = [0], reduction = "sum"} : (tensor<8x8xf32, #mesh.shard<@g, [[], [], [0]]>>) -> tensor<8x4xf32>
  return
}
